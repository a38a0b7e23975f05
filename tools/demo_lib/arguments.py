"""The demo's command line; the standard library alone, so that --help needs no packages."""

import argparse
from pathlib import Path

DESCRIPTION = "Trains a small network with several processes on real data, once per preset."
OPTIMIZERS = ("sgd", "adam")
PRESETS = ["none", "bf16", "blocks-8", "rotated-8", "adaptive-4", "rice-4", "paper-gl8",
           "paper-gl4"]


def _count(text):
    """For argparse: a whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"it is {text}; at least 1")
    return number


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tools/demo", description=DESCRIPTION)
    parser.add_argument("--presets", nargs="+", default=PRESETS, help="quantizers, in turn")
    parser.add_argument("--optimizers", nargs="+", default=["sgd"], choices=OPTIMIZERS,
                        help="what trains, in turn (default: sgd)")
    parser.add_argument("--ranks", type=_count, default=4, help="processes (default: 4)")
    parser.add_argument("--seeds", type=_count, default=3, help="trainings per method (default: 3)")
    parser.add_argument("--steps", type=_count, help="training steps (default: by data set)")
    parser.add_argument("--schedule", default="auto", help="who sends what to whom")
    parser.add_argument("--data", nargs="+", help="data sets by name (default: all found)")
    parser.add_argument("--kill", type=int, metavar="RANK",
                        help="kill this rank half-way, to see what the others get")
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="where files go")
    arguments = parser.parse_args()
    if arguments.kill is not None and not 0 <= arguments.kill < arguments.ranks:
        parser.error(f"--kill: there is no rank {arguments.kill} among {arguments.ranks}")
    return arguments


if __name__ == "__main__":
    parse_arguments()
