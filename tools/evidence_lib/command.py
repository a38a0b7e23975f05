"""The command line of tools/evidence."""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from net_lib.network import exit_when_terminated
from study_lib.run_store import RunStore, write_results

from .contenders import ALL, FLOAT32, FP16, QUICK
from .domains import DOMAINS
from .other_work import was_disturbed
from .outcome import digest

def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(
        prog="tools/evidence", formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Trains each domain by each contender until the quality is reached, with ranks "
                    "that are simulated in one process, and composes steps with times of a step. "
                    "Runs that --out has are not run again: end it and start it as you like. With "
                    "4 ranks and 5 seeds the three domains of the means take 17 minutes of a "
                    "processor, fashion as long and lm-6m 12 minutes; with 8 ranks twice that.")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--quick", action="store_true",
                        help="nine contenders, one seed: some minutes of one processor")
    parser.add_argument("--domains", nargs="+", choices=tuple(DOMAINS),
                        help="default: all, or with --quick the three of the means")
    parser.add_argument("--contenders", nargs="+", metavar="NAME",
                        choices=[one.name for one in ALL],
                        help="in place of all; float32 and the fp16 hook are always there")
    parser.add_argument("--no-runs", action="store_true",
                        help="the page of what --out and --kept have already")
    parser.add_argument("--hosts", nargs="+", choices=("cells", "live"), default=(),
                        help="runs between network namespaces too, as root, on a machine that does "
                             "nothing else: cells, the steps of 24 cells of the map (25 minutes); "
                             "live, trainings from end to end (5 minutes)")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seeds", type=int, help="default: 5, or 1 with --quick")
    parser.add_argument("--out", type=Path, default=Path("build/evidence"), metavar="FOLDER",
                        help="has a file of JSON for each domain, and evidence.md")
    parser.add_argument("--kept", type=Path, metavar="FOLDER",
                        help="digests of results: what is there is not run again, and what is new "
                             "is added")
    parser.add_argument("--page", type=Path, metavar="FILE",
                        help="writes the page there, and pictures into pictures/ beside its folder")
    found = parser.parse_args(arguments)
    found.domains = found.domains or [name for name, domain in DOMAINS.items()
                                      if domain.counts or not found.quick]
    found.seeds = found.seeds or (1 if found.quick else 5)
    found.contenders = found.contenders or (QUICK if found.quick else [one.name for one in ALL])
    found.contenders = list(dict.fromkeys([FLOAT32, FP16, *found.contenders]))
    return found


def runs_of(arguments, name):
    """{key: function} of a domain's trainings: all contenders have a seed before any has the
    next."""
    from .training import steps_to_quality

    domain = DOMAINS[name]
    contenders = [one for one in arguments.contenders
                  if not domain.contenders or one in domain.contenders]
    return {f"{arguments.ranks}/{contender}/{seed}": partial(
                steps_to_quality, name, contender, arguments.ranks, seed)
            for seed in range(min(arguments.seeds, domain.most_seeds)) for contender in contenders}


def setting_of(domain):
    """What results depend on besides their key."""
    return {"domain": domain.name, "quality": domain.quality, "most_steps": domain.most_steps,
            "rows_per_rank": domain.rows_per_rank, "evaluate_every": domain.evaluate_every}


def between_hosts(arguments):
    """{part: results by key} of what ran between network namespaces."""
    from . import cells, live

    runs = {"cells": {cells.key_of(cell): partial(cells.measure, cell) for cell in cells.CELLS}
                     | {cells.AIMS: cells.measure_aims},
            "live": {live.key_of(setting, name): partial(live.measure, setting, name)
                     for setting in live.SETTINGS for name in live.NAMES}}
    stores = {}
    for part, own in runs.items():
        stores[part] = open_store(arguments, part, {"part": part})
        if part in arguments.hosts:
            exit_when_terminated()
            stores[part].drop(was_disturbed)
            stores[part].fill(own)
        keep(arguments, stores[part])
    return {part: store.results for part, store in stores.items()}


def open_store(arguments, name, setting):
    store = RunStore(arguments.out / f"{name}.json", setting)
    if arguments.kept and (arguments.kept / f"{name}.json").exists():
        store.add(RunStore(arguments.kept / f"{name}.json", setting).results)
    return store


def keep(arguments, store):
    """Adds the digest of a store to --kept."""
    if arguments.kept and store.results:
        write_results(arguments.kept / store.path.name, store.setting, digest(store.results))


def main():
    arguments = parse_arguments()
    library = arguments.build / "libgqsgd.so"
    if not library.exists():
        print(f"evidence: {library} is not there; build it, or give --build", file=sys.stderr)
        return 2
    os.environ.setdefault("GQSGD_LIBRARY", str(library.resolve()))
    found, others = {}, {}
    for name in arguments.domains:
        store = open_store(arguments, name, setting_of(DOMAINS[name]))
        runs = runs_of(arguments, name)
        if not arguments.no_runs:
            store.fill(runs)
        found[name] = {key: store.results[key] for key in runs if key in store.results}
        others[name] = {key: run for key, run in store.results.items()
                        if not key.startswith(f"{arguments.ranks}/")}
        keep(arguments, store)
    hosts = between_hosts(arguments)
    if not any(DOMAINS[name].counts for name in found):
        means = ", ".join(name for name, domain in DOMAINS.items() if domain.counts)
        print(f"evidence: no page, which is about means: it needs one of --domains {means}")
        return 0
    from . import report

    report.write(found, others, hosts, arguments)
    return 0
