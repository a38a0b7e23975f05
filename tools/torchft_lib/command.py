"""The command line of tools/torchft_hosts."""

import argparse
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import gqsgd
from gqsgd.network import ucx
from net_lib.network import exit_when_terminated

from .report import common_losses, report
from .training import Hosts, disturbed, undisturbed
from .evaluation import equality


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(
        prog="tools/torchft_hosts", formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Three replicas train a language model on characters by torchft, each on a "
                    "host that is a network namespace, with gradients in codes of this library. "
                    "One in turn is killed and restarted. Prints how long the others stood still, "
                    "at how many steps parameters differ, and losses. Exit status 1: they differ, "
                    "or the training has stopped.")
    parser.add_argument("--build", type=Path, default=Path("build"), help="has libgqsgd.so")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=5, help="of the run with kills")
    length.add_argument("--kills", type=int, help="in place of --minutes")
    parser.add_argument("--every", type=float, default=20, metavar="SECONDS",
                        help="between kills, or until the last victim is back if that is longer")
    parser.add_argument("--compare", action="store_true",
                        help="adds a run of as many steps without kills")
    parser.add_argument("--format", default="blocks-8", help="quantizer of the gradients")
    parser.add_argument("--rate", default="1gbit", help="of every link, as tc writes it")
    parser.add_argument("--heartbeat-timeout-ms", type=int, default=1000,
                        help="the lighthouse's, after which a replica is dead")
    parser.add_argument("--width", type=int, default=48, help="of the model")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=4, help="of text, of a replica in a step")
    parser.add_argument("--held-out-every", type=int, default=50, help="steps between losses")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/torchft_hosts"), metavar="FOLDER",
                        help="gets a line of JSON for each step of each replica, and errors")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draws losses there, as SVG")
    return parser.parse_args(arguments)


def missing(arguments):
    """What this machine or build lacks, as sentences."""
    if not (arguments.build / "libgqsgd.so").exists():
        yield f"{arguments.build / 'libgqsgd.so'} is not there; build it, or give --build"
    if os.geteuid() != 0:
        yield "network namespaces and tc need root"
    for program in ("ip", "tc", "unshare", "taskset", "torchft_lighthouse"):
        if shutil.which(program) is None:
            yield f"{program} is not on the PATH (Debian: iproute2, util-linux; pip: torchft)"
    if arguments.picture and find_spec("matplotlib") is None:
        yield "--picture needs matplotlib"
    try:
        ucx.report()
    except gqsgd.Unsupported as error:
        yield str(error)


def runs_of(arguments):
    """[the run with kills, the undisturbed one where --compare asks for it and the first ended
    well]."""
    setting = {"format": arguments.format, "seed": arguments.seed, "width": arguments.width,
               "layers": arguments.layers, "rows": arguments.rows,
               "held_out_every": arguments.held_out_every}
    seconds = None if arguments.kills else arguments.minutes * 60

    def hosts(name):
        return Hosts(setting, arguments.out / name, arguments.rate, arguments.heartbeat_timeout_ms)

    with hosts("kills") as running:
        runs = [disturbed(running, seconds, arguments.kills, arguments.every)]
    if arguments.compare and not runs[0].trouble:
        with hosts("undisturbed") as running:
            runs.append(undisturbed(running, runs[0].newest_step()))
    return runs


def main():
    arguments = parse_arguments()
    lacking = list(missing(arguments))
    if lacking:
        print("\n".join(f"torchft_hosts: {sentence}" for sentence in lacking), file=sys.stderr)
        return 2
    exit_when_terminated()
    os.environ.setdefault("GQSGD_LIBRARY", str((arguments.build / "libgqsgd.so").resolve()))
    runs = runs_of(arguments)
    print(report(runs))
    wrong = [run.trouble for run in runs if run.trouble]
    wrong += [sentence for run in runs for sentence in equality(run).different]
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    if arguments.picture and common_losses(runs):
        from .picture import draw

        draw(arguments.picture, runs)
    return 1 if wrong else 0
