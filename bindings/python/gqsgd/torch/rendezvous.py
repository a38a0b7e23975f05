"""How the ranks of a process group agree before they have a communicator: through its store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import torch.distributed as dist

import gqsgd

from .liveness import Liveness, wait_for_key

Said = dict[str, Any]  #: what a rank reports of itself, or rank 0's decision; JSON

_FOR_EVER = timedelta(days=365)
_DEFAULT_MS = 300_000  # as communicators have it


def rendezvous(
    store: dist.Store,
    rank: int,
    size: int,
    own: Said,
    decide: Callable[[list[Said]], Said],
    timeout_ms: int = _DEFAULT_MS,
    liveness: Liveness | None = None,
) -> Said:
    """Rank 0 decides from what all ranks report of themselves; every rank gets its decision, or
    raises what `decide` raised there. Raises PeerLost where `liveness` sees that a rank is gone,
    and Timeout, with the ranks that have not come, where nothing can be seen.

    Every rank calls. Rendezvous are counted in the store, so that none reads what an earlier one
    left there; those of a group that was of another size are counted by themselves.
    """
    timeout = patience_of(timeout_ms)
    number = (store.add(f"gqsgd/{size}/calls", 1) - 1) // size
    table = dist.PrefixStore(f"gqsgd/{size}/{number}", store)
    table.set(f"rank {rank}", json.dumps(own))
    meeting = _Meeting(table, size, time.monotonic() + timeout.total_seconds(), liveness)
    if rank == 0:
        return _decided(meeting, decide)
    decision = meeting.wait_for("decision")
    if "error" in decision:
        raise getattr(gqsgd, decision["error"])(decision["sentence"])
    return decision


def patience_of(timeout_ms: int) -> timedelta:
    """An option timeout_ms as a duration: 0 is the default, -1 for ever."""
    return _FOR_EVER if timeout_ms < 0 else timedelta(milliseconds=timeout_ms or _DEFAULT_MS)


def _decided(meeting: _Meeting, decide: Callable[[list[Said]], Said]) -> Said:
    """Rank 0's decision; a failure is published as well, so that no rank waits for nothing."""
    try:
        decision = decide([meeting.wait_for(f"rank {rank}") for rank in range(meeting.size)])
    except Exception as error:
        kind = error if isinstance(error, gqsgd.GqsgdError) else gqsgd.RemoteError()
        told = {"error": type(kind).__name__, "sentence": f"rank 0: {error}"}
        meeting.table.set("decision", json.dumps(told))
        raise
    meeting.table.set("decision", json.dumps(decision))
    return decision


class _Meeting(NamedTuple):
    table: dist.Store
    size: int
    end_s: float
    liveness: Liveness | None

    def wait_for(self, key: str) -> Said:
        left = timedelta(seconds=max(0.001, self.end_s - time.monotonic()))
        try:
            has_come = wait_for_key(self.table, key, left, self.liveness)
        except gqsgd.PeerLost as error:
            raise gqsgd.PeerLost(f"{error}; it was waited for to make a communicator") from error
        if not has_come:
            raise gqsgd.Timeout(self._missing())
        said: Said = json.loads(self.table.get(key))
        return said

    def _missing(self) -> str:
        absent = [k for k in range(self.size) if not self.table.check([f"rank {k}"])]
        if not absent:
            return (
                "rank 0 has not decided how to make a communicator, though all ranks have come, "
                "says the store of the process group; hint: look at rank 0"
            )
        ranks = " and ".join(map(str, absent))
        verdict = "" if self.liveness is None else f": {self.liveness.verdict}"
        return (
            f"rank {ranks} has not come to make a communicator{verdict}; hint: every rank of the "
            "group calls, in the same order"
        )
