"""How the ranks of a process group agree before they have a communicator: through its store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

import torch.distributed as dist

import gqsgd
from gqsgd.network.agreement import Report, published, received

from .liveness import Liveness, wait_for_key

_FOR_EVER = timedelta(days=365)
_DEFAULT_MS = 300_000  # as communicators have it


def rendezvous(
    store: dist.Store,
    rank: int,
    size: int,
    own: Report,
    decide: Callable[[list[Report]], Report],
    timeout_ms: int = _DEFAULT_MS,
    liveness: Liveness | None = None,
) -> Report:
    """Rank 0 decides from what all ranks report of themselves; every rank gets its decision, or
    raises what `decide` raised there. Raises PeerLost where `liveness` sees that a rank is gone,
    and Timeout, with the ranks that have not come, where nothing can be seen.

    Every rank calls. Rendezvous are counted in the store, so that none reads what an earlier one
    left there; those of a group that was of another size are counted by themselves.
    """
    timeout = duration_of(timeout_ms)
    number = (store.add(f"gqsgd/{size}/calls", 1) - 1) // size
    table = dist.PrefixStore(f"gqsgd/{size}/{number}", store)
    table.set(f"rank {rank}", json.dumps(own))
    shared = _Keys(table, size, time.monotonic() + timeout.total_seconds(), liveness)
    if rank == 0:
        return _decide_for_all(shared, decide)
    return received(shared.wait_for("decision"))


def duration_of(timeout_ms: int) -> timedelta:
    """An option timeout_ms as a duration: 0 is the default, -1 for ever."""
    return _FOR_EVER if timeout_ms < 0 else timedelta(milliseconds=timeout_ms or _DEFAULT_MS)


def _decide_for_all(shared: _Keys, decide: Callable[[list[Report]], Report]) -> Report:
    """Rank 0's decision; a failure is written as well, so that no rank waits in vain."""
    try:
        decision = decide([shared.wait_for(f"rank {rank}") for rank in range(shared.size)])
    except Exception as error:
        shared.table.set("decision", json.dumps(published(error)))
        raise
    shared.table.set("decision", json.dumps(decision))
    return decision


class _Keys(NamedTuple):
    """What ranks write into the store, and how long they wait for it."""

    table: dist.Store
    size: int
    end_s: float
    liveness: Liveness | None

    def wait_for(self, key: str) -> Report:
        left = timedelta(seconds=max(0.001, self.end_s - time.monotonic()))
        try:
            has_come = wait_for_key(self.table, key, left, self.liveness)
        except gqsgd.PeerLost as error:
            raise gqsgd.PeerLost(f"{error}; it was waited for to make a communicator") from error
        if not has_come:
            raise gqsgd.Timeout(self._missing())
        report: Report = json.loads(self.table.get(key))
        return report

    def _missing(self) -> str:
        absent = [k for k in range(self.size) if not self.table.check([f"rank {k}"])]
        if not absent:
            return (
                "rank 0 has not decided how to make a communicator, though all ranks have come, "
                "by the store of the process group; hint: look at rank 0"
            )
        ranks = " and ".join(map(str, absent))
        diagnosis = "" if self.liveness is None else f": {self.liveness.diagnosis}"
        return (
            f"rank {ranks} has not come to make a communicator{diagnosis}; hint: every rank of the "
            "group calls, in the same order"
        )
