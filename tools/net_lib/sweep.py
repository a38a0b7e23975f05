"""Where tools/auto_sweep measures: on this machine, or on networks of hosts made of namespaces."""

import contextlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .mpi import Mpirun
from .network import Network, exit_when_terminated


@dataclass(frozen=True)
class Place:
    """Ranks that can be started."""

    title: str
    ranks: int
    costs: str  # a file, or "builtin"
    run: Callable  # run(*command) on every rank; RuntimeError if it failed


def on_networks(arguments, calibrate):
    """A place for each number of hosts and each rate; without --costs constants are measured
    there first, by calibrate(place, file)."""
    exit_when_terminated()
    for hosts in arguments.hosts:
        with contextlib.ExitStack() as stack:
            network = stack.enter_context(Network(hosts, arguments.rate[0]))
            mpirun = Mpirun(network, arguments.mpirun)
            stack.callback(mpirun.close)
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gqsgd-sweep-"))
            for rate in arguments.rate:
                network.set_rate(rate)
                costs = arguments.costs or str(Path(folder) / f"costs-{rate}")
                place = Place(f"{hosts} hosts, {rate} each way", hosts, costs, mpirun.run)
                if not arguments.costs:
                    calibrate(place, costs)
                yield place


def lacks(arguments):
    """What this machine lacks for networks, as sentences."""
    if os.geteuid() != 0:
        yield "network namespaces and tc need root"
    if not all(2 <= hosts <= 64 for hosts in arguments.hosts):
        yield "--hosts is 2 to 64"
    if arguments.transport != "mpi":
        yield "--rate goes with --transport mpi"
