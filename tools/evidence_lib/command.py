"""The command line of tools/evidence."""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from study_lib.run_store import RunStore

from .contenders import ALL, FLOAT32, FP16, QUICK
from .domains import DOMAINS

def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(
        prog="tools/evidence", formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Trains each domain by each contender until the quality is reached, with ranks "
                    "that are simulated in one process, and composes steps with times of a step. "
                    "Runs that --out has are not run again: end it and start it as you like.")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--quick", action="store_true",
                        help="nine contenders, one seed: some minutes of one processor")
    parser.add_argument("--domains", nargs="+", choices=tuple(DOMAINS), default=tuple(DOMAINS))
    parser.add_argument("--contenders", nargs="+", metavar="NAME",
                        choices=[one.name for one in ALL],
                        help="in place of all; float32 and the fp16 hook are always there")
    parser.add_argument("--no-runs", action="store_true",
                        help="the page of what --out has already")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seeds", type=int, help="default: 3, or 1 with --quick")
    parser.add_argument("--out", type=Path, default=Path("build/evidence"), metavar="FOLDER",
                        help="has a file of JSON for each domain, and evidence.md")
    parser.add_argument("--page", type=Path, metavar="FILE",
                        help="writes the page there, and pictures into pictures/ beside its folder")
    found = parser.parse_args(arguments)
    found.seeds = found.seeds or (1 if found.quick else 3)
    found.contenders = found.contenders or (QUICK if found.quick else [one.name for one in ALL])
    found.contenders = list(dict.fromkeys([FLOAT32, FP16, *found.contenders]))
    return found


def runs_of(arguments, domain):
    """{key: function} of a domain's trainings: all contenders have a seed before any has the
    next."""
    from .training import steps_to_quality

    return {f"{arguments.ranks}/{name}/{seed}": partial(
                steps_to_quality, domain, name, arguments.ranks, seed)
            for seed in range(arguments.seeds) for name in arguments.contenders}


def setting_of(domain):
    """What results depend on besides their key."""
    return {"domain": domain.name, "quality": domain.quality, "most_steps": domain.most_steps,
            "rows_per_rank": domain.rows_per_rank, "evaluate_every": domain.evaluate_every}


def main():
    arguments = parse_arguments()
    library = arguments.build / "libgqsgd.so"
    if not library.exists():
        print(f"evidence: {library} is not there; build it, or give --build", file=sys.stderr)
        return 2
    os.environ.setdefault("GQSGD_LIBRARY", str(library.resolve()))
    found = {}
    for name in arguments.domains:
        store = RunStore(arguments.out / f"{name}.json", setting_of(DOMAINS[name]))
        runs = runs_of(arguments, name)
        if not arguments.no_runs:
            store.fill(runs)
        found[name] = {key: store.results[key] for key in runs if key in store.results}
    from . import report

    report.write(found, arguments)
    return 0
