"""The command line of tools/netbench."""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

import gqsgd
from gqsgd.network import ucx

from .bench import measure
from .network import exit_when_terminated
from .report import markdown, table


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(
        prog="tools/netbench", formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Allreduces of float32 over a network of hosts made of namespaces, beside Gloo "
                    "with float32, float16 and bfloat16 on the way. Times are medians; every call "
                    "is as slow as its slowest rank.")
    add_network_options(parser, ["1gbit"])
    parser.add_argument("--count", type=int, default=6553600, help="values")
    parser.add_argument("--preset", default="blocks-8,rotated-8,rotated-4-8,rotated-4",
                        help="quantizers, by commas; none and MPI_Allreduce run beside them")
    parser.add_argument("--format", action="append", default=[], metavar="SPEC",
                        help="a quantizer in full, beside the presets; may be given again")
    parser.add_argument("--schedule", default="direct")
    parser.add_argument("--comm-options", default="", help="options of the communicators")
    parser.add_argument("--connection-mbit", type=float, metavar="MBIT",
                        help="Mbit/s of every TCP connection, as some clouds limit it; with UCX "
                             "--comm-options paths=N makes several of them")
    parser.add_argument("--iterations", type=int, default=11, help="timed calls of each contender")
    parser.add_argument("--markdown", type=Path, metavar="FILE",
                        help="writes the tables there as sections of a page")
    parser.add_argument("--no-gloo", action="store_true",
                        help="leaves PyTorch's Gloo out; then ratios are to the first row")
    parser.add_argument("--transport", nargs="+", choices=["mpi", "network"],
                        default=["mpi", "network"], help="that the library uses")
    return parser.parse_args(arguments)


def add_network_options(parser, rates):
    """Those of every tool that runs ranks over a network, and what run_rates wants of them."""
    parser.add_argument("--build", type=Path, default=Path("build"),
                        help="folder of a build with MPI: libgqsgd.so, bench/gqsgd-perf-mpi, ..")
    parser.add_argument("--hosts", type=int, default=4, help="2 to 64, one rank each")
    parser.add_argument("--rate", nargs="+", default=rates,
                        help="of every link, both ways, as tc writes it: 200mbit, 1gbit; or "
                             "unlimited")
    parser.add_argument("--mpirun", default="mpirun", help="Open MPI's")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes everything there too")
    parser.set_defaults(no_gloo=False, transport=["mpi"])


def missing(arguments):
    """What this machine or build lacks, as sentences."""
    if os.geteuid() != 0:
        yield "network namespaces and tc need root"
    if not 2 <= arguments.hosts <= 64:
        yield f"--hosts is {arguments.hosts}; it is 2 to 64"
    over_mpi = "mpi" in arguments.transport
    for program in ("ip", "tc", "unshare", *([arguments.mpirun] if over_mpi else [])):
        if shutil.which(program) is None:
            yield f"{program} is not on this machine (Debian: iproute2, util-linux, openmpi-bin)"
    for file in ("libgqsgd.so", *(["bench/gqsgd-perf-mpi"] if over_mpi else [])):
        if not (arguments.build / file).exists():
            yield f"{arguments.build / file} is not there; build with MPI, or give --build"
    if "network" in arguments.transport:
        try:
            ucx.report()
        except gqsgd.Unsupported as error:
            yield str(error)
    if not arguments.no_gloo:
        try:
            import torch  # noqa: F401
        except ImportError:
            yield "torch is not in this Python; install it, or give --no-gloo"


def run_rates(program, arguments, measure, table):
    """Measures at every rate, prints its table, writes --json; the exit status."""
    lacking = list(missing(arguments))
    if lacking:
        print("\n".join(f"{program}: {sentence}" for sentence in lacking), file=sys.stderr)
        return 2
    exit_when_terminated()
    os.environ.setdefault("GQSGD_LIBRARY", str((arguments.build / "libgqsgd.so").resolve()))
    runs = []
    for rate in arguments.rate:
        try:
            runs.append(measure(arguments, rate))
        except RuntimeError as error:  # of a command or a rank, with what it said
            print(f"{program}: {error}", file=sys.stderr)
            return 1
        print(table(runs[-1]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"command": sys.argv, "runs": runs}, indent=1))
    return 0


def limit_connections(build, mbit):
    """Processes that are started from now on send at most so much by each TCP connection."""
    module = (build / "tools/paced_sockets.so").resolve()
    if not module.exists():
        sys.exit(f"netbench: {module} is not there; build it, or leave --connection-mbit out")
    os.environ.update(LD_PRELOAD=str(module), PACED_BYTES_PER_S=str(round(mbit * 1e6 / 8)))


def main():
    arguments = parse_arguments()
    if arguments.connection_mbit is not None:
        limit_connections(arguments.build, arguments.connection_mbit)
    runs = []

    def measured(given, rate):
        runs.append(measure(given, rate))
        return runs[-1]

    status = run_rates("netbench", arguments, measured, table)
    if arguments.markdown and status == 0:
        arguments.markdown.write_text("\n".join(map(markdown, runs)))
    return status
