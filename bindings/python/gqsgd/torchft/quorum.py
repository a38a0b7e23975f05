"""The communicator of a quorum: its replicas find each other through torchft's store, and agree on
what continues."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch.distributed as dist

import gqsgd
from gqsgd.network import host
from gqsgd.network.agreement import NetworkGroup
from gqsgd.torch.rendezvous import Report, rendezvous


def connect(
    store: dist.Store, rank: int, size: int, before: dict[str, Any], options: dict[str, Any]
) -> gqsgd.Communicator:
    """All replicas call, with the store of their quorum. `before`: counter and costs of the quorum
    that this replica was in, or nothing."""
    agree = partial(rendezvous, store, rank, size, timeout_ms=options["timeout_ms"])
    choice = agree({"host": host.identity(), **before}, _decision)
    if choice["costs"]:  # measured by an earlier quorum, of which this replica may know nothing
        options = {**options, "costs": choice["costs"]}
    if choice["id"]:
        comm = gqsgd.Communicator.process(bytes.fromhex(choice["id"]), rank, size, **options)
    else:
        address = host.id_options(options, "", _host_of(store))
        comm = NetworkGroup(agree, rank, size, address, options).connect()
    comm.counter = choice["counter"]
    return comm


def _decision(reports: list[Report]) -> Report:
    """Rank 0's, for all: the largest counter, as replicas that died in the middle of a call leave
    different ones, and the costs of the replica that has it."""
    newest = max(reports, key=lambda each: int(each.get("counter", 0)))
    one_host = all(each["host"] == reports[0]["host"] for each in reports)
    return {
        "counter": int(newest.get("counter", 0)),
        "costs": newest.get("costs", ""),
        "id": gqsgd.unique_id().hex() if one_host else "",
    }


def _host_of(store: dist.Store) -> str:
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return str(store.host) if isinstance(store, dist.TCPStore) else ""
