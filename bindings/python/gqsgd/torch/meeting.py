"""How the ranks of a process group agree before they have a communicator: through its store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist

import gqsgd

Said = dict[str, Any]  #: what a rank says of itself, or rank 0's decision; JSON

_FOR_EVER = timedelta(days=365)
_DEFAULT_MS = 300_000  # as communicators have it


def meet(
    store: dist.Store,
    rank: int,
    size: int,
    own: Said,
    decide: Callable[[list[Said]], Said],
    timeout_ms: int = _DEFAULT_MS,
) -> Said:
    """Rank 0 decides from what all ranks say of themselves; every rank gets its decision, or raises
    what `decide` raised there.

    Every rank calls. Meetings are counted in the store, so that none reads what an earlier one left
    there; those of a group that was of another size are counted by themselves.
    """
    patience = _FOR_EVER if timeout_ms < 0 else timedelta(milliseconds=timeout_ms or _DEFAULT_MS)
    number = (store.add(f"gqsgd/{size}/calls", 1) - 1) // size
    table = dist.PrefixStore(f"gqsgd/{size}/{number}", store)
    if rank == 0:
        return _decided(table, size, own, decide, patience)
    table.set(f"rank {rank}", json.dumps(own))
    decision = _awaited(table, "decision", patience, "rank 0 has not decided how")
    if "error" in decision:
        raise getattr(gqsgd, decision["error"])(decision["sentence"])
    return decision


def _decided(
    table: dist.Store,
    size: int,
    own: Said,
    decide: Callable[[list[Said]], Said],
    patience: timedelta,
) -> Said:
    """Rank 0's decision; a failure is told as well, so that no rank waits for nothing."""
    try:
        end, said = time.monotonic() + patience.total_seconds(), [own]
        for rank in range(1, size):
            left = timedelta(seconds=max(0.001, end - time.monotonic()))
            said.append(_awaited(table, f"rank {rank}", left, f"rank {rank} has not come"))
        decision = decide(said)
    except Exception as error:
        kind = error if isinstance(error, gqsgd.GqsgdError) else gqsgd.RemoteError()
        told = {"error": type(kind).__name__, "sentence": f"rank 0: {error}"}
        table.set("decision", json.dumps(told))
        raise
    table.set("decision", json.dumps(decision))
    return decision


def _awaited(table: dist.Store, key: str, patience: timedelta, missing: str) -> Said:
    try:
        table.wait([key], patience)
    except RuntimeError as error:
        raise gqsgd.Timeout(
            f"{missing} to make a communicator, says the store of the process group ({error}); "
            "hint: every rank of the group calls, in the same order"
        ) from error
    said: Said = json.loads(table.get(key))
    return said
