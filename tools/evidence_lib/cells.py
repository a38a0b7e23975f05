"""Cells of the map that one machine can measure: steps of DistributedDataParallel between network
namespaces, as tools/netsteps --overlap takes them, on a network of the cell's size."""

import statistics
from types import SimpleNamespace

from net_lib import overlap
from torch_lib.hooks import ALONE

from . import times
from .contenders import FLOAT32, FP16, hook_of
from .other_work import OtherWork

_LAYERS = 22  # as many as make tensors smaller than PyTorch's first bucket
_WIDTHS = {500_000: 136, 6_000_000: 512}
_STEPS = 8
CELLS = [(4, compute_s, rate, values) for values in _WIDTHS for rate in (0.2e9, 1e9, 5e9, 10e9)
         for compute_s in (0.1, 0.3, 1.0)]
# Of a link's bytes those of TCP: Ethernet's frames of 1,514 bytes have 1,448 of them. A map's rates
# are of a link that has no other bytes.
PAYLOAD = 1448 / 1514
NAMES = (FLOAT32, FP16, "blocks-8", "adaptive-5", "rotated-4")
# The cell of the aims once more, with small buckets for all, of which most travel during backward.
AIMS = "aims"
AIMS_CELL, AIMS_BUCKET_MB, AIMS_RUNS = (4, 0.1, 1e9, 6_000_000), 3, 7
AIMS_NAMES = (FLOAT32, FP16, "blocks-8", "rotated-4", "adaptive-3")


def key_of(cell):
    ranks, compute_s, rate, values = cell
    return f"{ranks}/{compute_s * 1e3:g} ms/{rate / 1e9:g} Gbit/s/{values}"


def measure(cell, names=NAMES, bucket_mb=0):
    """{"values": of the network, "alone": seconds of a step without communication, "seconds":
    {contender: of a step}, "others": processors that were busy with other work}, medians."""
    ranks, compute_s, rate, values = cell
    busy = OtherWork()
    found = overlap.measure(SimpleNamespace(
        hosts=ranks, width=_WIDTHS[values], layers=_LAYERS, bucket_mb=bucket_mb,
        compute_ms=compute_s * 1e3, steps=_STEPS,
        hooks=";".join([ALONE, *map(hook_of, names)])), f"{rate / 1e6:g}mbit")
    alone, *rows = (round(row["seconds"], 5) for row in found["rows"])
    return {"values": found["values"], "alone": alone,
            "seconds": dict(zip(names, rows, strict=True)), "others": round(busy.processors(), 2)}


def measure_aims():
    """The same, medians of several runs, which "runs" has too."""
    runs = [measure(AIMS_CELL, AIMS_NAMES, AIMS_BUCKET_MB) for _ in range(AIMS_RUNS)]
    return {"values": runs[0]["values"], "alone": statistics.median(run["alone"] for run in runs),
            "seconds": {name: statistics.median(run["seconds"][name] for run in runs)
                        for name in AIMS_NAMES},
            "runs": [run["seconds"] for run in runs],
            "others": max(run["others"] for run in runs)}


def compared(cell, found):
    """{contender: (predicted, measured) seconds of a step} of a measured cell."""
    ranks, compute_s, rate, _ = cell
    return {name: (times.step_seconds(name, ranks, found["values"], PAYLOAD * rate, compute_s),
                   seconds)
            for name, seconds in found["seconds"].items()}


def worst_difference(cell, found):
    """The largest |measured / predicted - 1| of its contenders."""
    return max(abs(measured / predicted - 1)
               for predicted, measured in compared(cell, found).values())
