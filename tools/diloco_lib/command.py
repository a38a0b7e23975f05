"""The command line of tools/diloco_table."""

import argparse
import os
import shutil
import sys
from functools import partial
from pathlib import Path

import gqsgd
from gqsgd.network import ucx
from net_lib.network import exit_when_terminated
from study_lib.run_store import RunStore

from . import contenders, hosts, report

SITES, LAYERS = 4, 2  # of losses
TORCHFT_SITES, TORCHFT_RATE = 3, "200mbit"
TORCHFT = (contenders.FLOAT32, contenders.FP8, "blocks-8", "rotated-4-8", "rotated-4", "rice-4",
           "paper-ge4")
NETWORK = {"width": 96, "layers": 4, "seed": 0, "inner_steps": 2}  # larger: times need bytes


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(
        prog="tools/diloco_table", formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Tables by part. losses: trainings with virtual sites in this process, whose "
                    "bits are those of a network. network: outer steps between namespaces, all "
                    "contenders in turn on the same changes. torchft: trainings by "
                    "torchft.local_sgd.DiLoCo between namespaces. torchft-times: the outer "
                    "steps of these, of a larger network. What --out has is not run again.")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=tuple(PARTS))
    parser.add_argument("--seeds", type=int, default=5, help="of losses; torchft has two")
    parser.add_argument("--inner-steps", type=int, default=20)
    parser.add_argument("--outer-steps", type=int, default=10)
    parser.add_argument("--width", type=int, default=48, help="of the network of losses, torchft")
    parser.add_argument("--sites", type=int, nargs="+", default=[2, 4], help="of network")
    parser.add_argument("--rate", nargs="+", default=["100mbit", "500mbit"], help="of network")
    parser.add_argument("--rounds", type=int, default=8, help="timed outer steps of network")
    parser.add_argument("--contenders", nargs="+", help="of torchft, in place of all")
    parser.add_argument("--out", type=Path, default=Path("build/diloco"), metavar="FOLDER",
                        help="has a file of JSON for each part")
    parser.add_argument("--page", type=Path, help="writes the tables there: "
                                                  "docs/results/diloco.md")
    found = parser.parse_args(arguments)
    if found.seeds < 2:
        parser.error("--seeds is 2 or more: a spread needs two")
    return found


def losses(arguments):
    """(setting, runs) of virtual sites."""
    from .training import simulated_training

    setting = {"width": arguments.width, "layers": LAYERS, "sites": SITES,
               "inner_steps": arguments.inner_steps, "outer_steps": arguments.outer_steps}
    return setting, {f"{name}/{seed}": partial(simulated_training, name, seed, setting)
                     for seed in range(arguments.seeds)
                     for name in (*contenders.NAMES, contenders.CONTROL)}


def network(arguments):
    setting = {**NETWORK, "rounds": arguments.rounds}
    return setting, {f"{sites}/{rate}": partial(hosts.outer_steps, setting, sites, rate)
                     for sites in arguments.sites for rate in arguments.rate}


def torchft(arguments):
    return _torchft(arguments, 2, {"width": arguments.width, "layers": LAYERS,
                                   "inner_steps": arguments.inner_steps,
                                   "outer_steps": arguments.outer_steps})


def torchft_times(arguments):
    return _torchft(arguments, 1, {"width": NETWORK["width"], "layers": NETWORK["layers"],
                                   "inner_steps": NETWORK["inner_steps"],
                                   "outer_steps": arguments.rounds + 1})


def _torchft(arguments, seeds, setting):
    runs = {}
    for seed in range(seeds):
        for name in arguments.contenders or TORCHFT:
            own = {**setting, "name": name, "seed": seed}
            runs[f"{name}/{seed}"] = partial(hosts.torchft_training, own, TORCHFT_SITES,
                                             TORCHFT_RATE)
    return {**setting, "sites": TORCHFT_SITES, "rate": TORCHFT_RATE}, runs


PARTS = {"losses": losses, "network": network, "torchft": torchft, "torchft-times": torchft_times}


def missing(arguments):
    """What this machine or build lacks, as sentences."""
    if not (arguments.build / "libgqsgd.so").exists():
        yield f"{arguments.build / 'libgqsgd.so'} is not there; build it, or give --build"
    if arguments.parts == ["losses"]:
        return
    if os.geteuid() != 0:
        yield "network namespaces and tc need root"
    for program in ("ip", "tc", "unshare", "torchft_lighthouse"):
        if shutil.which(program) is None:
            yield f"{program} is not on the PATH (Debian: iproute2, util-linux; pip: torchft)"
    try:
        ucx.report()
    except gqsgd.Unsupported as error:
        yield str(error)


def main():
    arguments = parse_arguments()
    lacking = list(missing(arguments))
    if lacking:
        print("\n".join(f"diloco_table: {sentence}" for sentence in lacking), file=sys.stderr)
        return 2
    exit_when_terminated()
    os.environ.setdefault("GQSGD_LIBRARY", str((arguments.build / "libgqsgd.so").resolve()))
    stores = {}
    for part in arguments.parts:
        setting, runs = PARTS[part](arguments)
        stores[part] = RunStore(arguments.out / f"{part}.json", setting)
        stores[part].fill(runs)
    text = report.page(stores)
    print(text)
    if arguments.page:
        if set(stores) != set(PARTS):
            print("diloco_table: --page needs all parts", file=sys.stderr)
            return 2
        arguments.page.write_text(text)
    return 0
