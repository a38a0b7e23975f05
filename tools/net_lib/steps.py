"""tools/netsteps: training steps at several rates, measured and predicted."""

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import gqsgd

from . import link, overlap
from .bench import GLOO
from .command import add_network_options, run_rates
from .mpi import Mpirun
from .network import Network

_RANK = Path(__file__).with_name("step_rank.py")
_PORT = 29500
COLUMNS = ("", "ms", "speed-up", "predicted ms", "measured / predicted", "loss")


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(
        prog="tools/netsteps", formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="A step is: gradient of a network with two hidden layers, a wait until "
                    "--compute-ms have passed, average over the hosts, update. Nothing overlaps. "
                    "With --overlap: a step of DistributedDataParallel with six hidden layers, "
                    "whose gradients are there one after the other within --compute-ms.")
    add_network_options(parser, ["200mbit", "500mbit", "1000mbit", "1500mbit"])
    parser.add_argument("--compute-ms", type=float, default=150,
                        help="from the beginning of a step to its gradient")
    parser.add_argument("--width", type=int, metavar="N",
                        help="of the hidden layers; 2048, or with --overlap 1024, which gives 5.8 "
                             "or 6.1 million weights, where it is not given")
    parser.add_argument("--steps", type=int, default=8, help="of every contender")
    parser.add_argument("--preset", default="none,paper-gl8,blocks-8,rotated-4,paper-gl4")
    parser.add_argument("--costs", type=Path, metavar="FILE",
                        help="constants of gqsgd-calibrate for the predictions; those of the link "
                             "are measured (default: built in)")
    parser.add_argument("--overlap", action="store_true",
                        help="compares hooks of DistributedDataParallel, without MPI")
    parser.add_argument("--layers", type=int, default=6, help="with --overlap: hidden layers")
    parser.add_argument("--bucket-mb", type=float, default=4, metavar="MIB",
                        help="with --overlap: of DistributedDataParallel; 0: its own buckets, the "
                             "first of 1 MiB and then 25 each")
    parser.add_argument("--hooks", default=overlap.HOOKS,
                        help="with --overlap, separated by semicolons: names of "
                             "tools/torch_lib/hooks.py")
    found = parser.parse_args(arguments)
    found.width = found.width or (1024 if found.overlap else 2048)
    if found.overlap:
        found.transport = ["network"]
    return found


def measure(arguments, rate):
    """{"rate", "link", "values", "rows"}: a row has name, seconds, predicted_seconds, losses."""
    with Network(arguments.hosts, rate) as network:
        of_link = link.constants(network)
        found = _run_ranks(arguments, network)
    text = arguments.costs.read_text() if arguments.costs else ""
    kept = [line for line in text.splitlines() if line.split("=")[0].strip() not in of_link]
    text = "\n".join(kept + [f"{name} = {value:.6g}" for name, value in of_link.items()]) + "\n"
    rows = []
    for name, run in found["contenders"].items():
        quantizer, schedule = ("none", "ring") if name == GLOO else (name, "direct")
        predicted = gqsgd.predict_time(gqsgd.Quantizer(quantizer), arguments.hosts,
                                       found["values"], schedule, constants=text)
        rows.append({"name": name, "seconds": statistics.median(run["seconds"]),
                     "predicted_seconds": predicted + arguments.compute_ms * 1e-3,
                     "losses": run["losses"]})
    return {"rate": rate, "hosts": arguments.hosts, "values": found["values"], "link": of_link,
            "compute_ms": arguments.compute_ms, "rows": rows}


def _run_ranks(arguments, network):
    address = f"{network.hosts[0].address}:{_PORT}"
    with tempfile.TemporaryDirectory(prefix="gqsgd-netsteps-") as folder:
        file = Path(folder) / "steps.json"
        mpirun = Mpirun(network, arguments.mpirun)
        try:
            mpirun.run("env", f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}",
                       f"GQSGD_LIBRARY={os.environ['GQSGD_LIBRARY']}", "OMP_NUM_THREADS=1",
                       sys.executable, str(_RANK), address, str(arguments.width),
                       str(arguments.compute_ms), str(arguments.steps + 1), arguments.preset,
                       str(file))
        finally:
            mpirun.close()
        return json.loads(file.read_text())


def table(run):
    """Aligned text of one rate."""
    lines = _lines_of(run) if "link" in run else overlap.lines_of(run)
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = [f"{run['hosts']} hosts, {run['rate']} each way, {run['values']:,} weights, "
            f"{run['compute_ms']:g} ms of compute"]
    text += ["  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                       for column, (cell, width) in enumerate(zip(line, widths, strict=True)))
             for line in lines]
    return "\n".join(text) + "\n"


def _lines_of(run):
    """The cells of each line; the speed-up is over Gloo."""
    base = run["rows"][0]["seconds"]
    return [COLUMNS] + [
        (row["name"], f"{row['seconds'] * 1e3:.0f}", f"{base / row['seconds']:.2f}x",
         f"{row['predicted_seconds'] * 1e3:.0f}",
         f"{row['seconds'] / row['predicted_seconds']:.2f}",
         f"{row['losses'][0]:.2f} -> {row['losses'][-1]:.2f}") for row in run["rows"]]


def main():
    arguments = parse_arguments()
    found = overlap.measure if arguments.overlap else measure
    return run_rates("netsteps", arguments, found, table)
