"""The command line of tools/torch_table."""

import argparse
import os
import statistics
import sys
from pathlib import Path

from torch_lib import hooks, overhead, ranks, report, trace, training


def main():
    parser = argparse.ArgumentParser(prog="tools/torch_table", description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100, help="of each training")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--hooks", default="", help="rows, semicolon-separated; default: all")
    parser.add_argument("--repeats", type=int, default=20, help="of the allreduce of 25 MiB")
    parser.add_argument("--out", type=Path, help="file for the page; default: standard output")
    parser.add_argument("--trace", type=Path, metavar="FILE",
                        help="writes the profiler's trace of a backward there, in Chrome's format")
    parser.add_argument("--timeout-s", type=float, default=600, help="of one training")
    options = parser.parse_args()
    if options.steps <= training.WARM_STEP_COUNT:
        parser.error(f"--steps must be above {training.WARM_STEP_COUNT}, which warm up")
    names = options.hooks.split(";") if options.hooks else hooks.names()
    for name in names:
        if name not in hooks.names():
            parser.error(f"no hook {name!r}; there are {'; '.join(hooks.names())}")
    text = report.page(measure(names, options), options.ranks, options.seeds, options.steps,
                       machine(), "tools/torch_table " + " ".join(sys.argv[1:]))
    if options.out:
        options.out.write_text(text)
    else:
        print(text)
    return 0


def measure(names, options):
    """All numbers of the page."""
    jobs = [(training.train, (name, seed, options.steps))
            for seed in range(options.seeds) for name in names]
    jobs += [(overhead.overhead, (options.repeats,)), (overhead.overlap, (5,)),
             (trace.traced, (options.trace,))]
    *trained, overhead_ms, overlapped, traced = ranks.run(options.ranks, jobs, options.timeout_s)
    found = {}
    for position, name in enumerate(names):
        times, sizes, losses = zip(*trained[position::len(names)])
        spread = statistics.stdev(losses) if len(losses) > 1 else 0.0
        found[name] = min(times), sizes[0], statistics.mean(losses), spread
    return {"hooks": found, "overhead": overhead_ms, "overlap": overlapped, "trace": traced}


def machine():
    """Processor and versions, in one line."""
    import gqsgd
    import torch

    model = next((line.partition(":")[2].strip() for line in
                  Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "?")
    load = os.getloadavg()[0]
    return (f"{model}, {os.cpu_count()} virtual CPUs, one thread per process, load average "
            f"{load:.1f} at the end; PyTorch {torch.__version__}, libgqsgd {gqsgd.version()}")
