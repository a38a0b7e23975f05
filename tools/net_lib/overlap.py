"""tools/netsteps --overlap: steps under DistributedDataParallel by hook, with buckets that travel
during backward."""

import json
import statistics
from pathlib import Path

from .network import Network
from .ranks import outputs_of

_RANK = Path(__file__).with_name("ddp_rank.py")
HOOKS = ("DDP;fp16;PowerSGD rank 4;none, network;blocks-8, network;rotated-8, network;"
         "rotated-4-8, network;blocks-8, group")
COLUMNS = ("", "ms", "speed-up", "ms over compute")


def measure(arguments, rate):
    """{"rate", "values", "rows"}: a row has name and seconds."""
    with Network(arguments.hosts, rate) as network:
        output = outputs_of(network, "DistributedDataParallel", _RANK, arguments.width,
                            arguments.layers, arguments.bucket_mb, arguments.compute_ms,
                            arguments.steps, *arguments.hooks.split(";"))[0]
    found = json.loads(output)
    rows = [{"name": name, "seconds": statistics.median(run["seconds"])}
            for name, run in found["hooks"].items()]
    return {"rate": rate, "hosts": arguments.hosts, "values": found["values"],
            "compute_ms": arguments.compute_ms, "rows": rows}


def lines_of(run):
    """The cells of each line; the speed-up is over the first hook."""
    base = run["rows"][0]["seconds"]
    return [COLUMNS] + [
        (row["name"], f"{row['seconds'] * 1e3:.0f}", f"{base / row['seconds']:.2f}x",
         f"{row['seconds'] * 1e3 - run['compute_ms']:.0f}") for row in run["rows"]]
