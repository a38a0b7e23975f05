"""Communicators of JAX programs on several processes."""

from __future__ import annotations

from typing import Any

from ..communicator import Communicator, unique_id
from ..network import host
from ..network.agreement import NetworkGroup, Report
from . import program


def connect(**options: Any) -> Communicator:
    """Makes a communicator of the processes of the program, which all call it: in the order that
    jax.distributed.initialize() gave them, or without that what torchrun, mpirun or srun has put
    into the environment (`gqsgd.Communicator.from_env`).

    Processes of one user on one machine get the transport of `gqsgd.Communicator.process`, others
    that of `gqsgd.Communicator.network`, which takes arrays on the CPU alone. GPUs have
    `gqsgd.Communicator.nccl`.
    options: those of gqsgd.Communicator and of `network`. Where rank 0 listens between machines:
        `interface` or `address`, else the address by which it reaches the coordinator.

    Raises on all ranks alike what these raise: Unsupported where one of several machines has no
    UCX, Timeout with a rank that does not call.
    """
    found = program.current(int(options.get("timeout_ms", 0)))
    if found is None:
        return Communicator.from_env(**options)
    choice = found.agree({"host": host.identity()}, _decision)
    if choice["id"]:
        return Communicator.process(
            bytes.fromhex(choice["id"]), found.rank, found.size, **options)
    coordinator = found.coordinator.rpartition(":")[0].strip("[]")
    id_options = host.id_options(options, "", coordinator)
    return NetworkGroup(found.agree, found.rank, found.size, id_options, options).connect()


def _decision(reports: list[Report]) -> Report:
    """Rank 0's: the name of a group on one machine; "" for one between machines."""
    one_host = all(each["host"] == reports[0]["host"] for each in reports)
    return {"id": unique_id().hex() if one_host else ""}
