"""Liveness: which ranks of a process group are gone, as far as its connections show."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

import gqsgd

from .gloo_links import gloo_reason

_TAG = 0x67717367  # of receives that are never sent to: "gqsg"
_POLL_MIN_S, _POLL_MAX_S = 0.001, 0.05
_LOOK_MIN_S, _LOOK_MAX_S = 0.02, 5.0
_SHARE = 0.1  # of the time waited so far: looks get rarer, a death is found 10 % late
_LOOK_AGAIN_COUNT, _LOOK_AGAIN_S = 10, 0.05  # for connections that break after another one


class Liveness:
    """Tests the connections of a Gloo group. Each rank of it has one to each other, and starting an
    operation over a broken one fails at once; a receive that is started for that reason and dropped
    costs some 100 bytes. Groups without Gloo cannot be tested."""

    def __init__(self, group: dist.ProcessGroup, rank: int, size: int):
        self._gloo = _gloo_of(group)
        self._peers = [peer for peer in range(size) if peer != rank]

    def look(self) -> None:
        """Raises PeerLost if a rank of the group is gone."""
        gone = []
        for peer in self._peers if self._gloo is not None else []:
            try:
                self._gloo.recv([torch.empty(1, dtype=torch.uint8)], peer, _TAG)
            except RuntimeError as error:
                gone.append((peer, gloo_reason(error)))
        if gone:
            ranks = " and ".join(str(peer) for peer, _ in gone)
            raise gqsgd.PeerLost(
                f"rank {ranks} is gone: the connection of the process group broke: {gone[0][1]}")

    def look_again(self) -> None:
        """Looks for a moment: something failed, and the cause may be seen only now."""
        for _ in range(_LOOK_AGAIN_COUNT):
            self.look()
            time.sleep(_LOOK_AGAIN_S)

    @property
    def diagnosis(self) -> str:
        """On a rank that has not come although `look` raises nothing."""
        if self._gloo is None:
            return "whether it has died or is late cannot be told in this process group"
        return "its connection stands, so that it is late, or its machine is"


def _gloo_of(group: dist.ProcessGroup) -> dist.ProcessGroupGloo | None:
    if not dist.is_gloo_available():
        return None
    try:
        backend = group._get_backend(torch.device("cpu"))
    except (RuntimeError, AttributeError):  # one for GPUs alone; a torch without this private name
        return None
    backend = getattr(backend, "wrapped_pg", backend)  # with TORCH_DISTRIBUTED_DEBUG=DETAIL
    return backend if isinstance(backend, dist.ProcessGroupGloo) else None


def wait_for_key(
    store: dist.Store, key: str, timeout: timedelta, liveness: Liveness | None
) -> bool:
    """True when the store has `key`, False after `timeout`. Raises PeerLost when a rank or store
    is gone. Polls: a wait of TCPStore's with a timeout of its own logs two warnings each time."""
    begin_s = look_s = time.monotonic()
    while not _has(store, key, liveness):
        now_s = time.monotonic()
        waited_s = now_s - begin_s
        if liveness is not None and now_s - look_s >= _interval(waited_s, _LOOK_MIN_S, _LOOK_MAX_S):
            liveness.look()
            look_s = now_s
        left_s = timeout.total_seconds() - waited_s
        if left_s <= 0:
            return False
        time.sleep(min(_interval(waited_s, _POLL_MIN_S, _POLL_MAX_S), left_s))
    return True


def _interval(waited_s: float, least_s: float, most_s: float) -> float:
    return min(max(least_s, _SHARE * waited_s), most_s)


def _has(store: dist.Store, key: str, liveness: Liveness | None) -> bool:
    try:
        return store.check([key])
    except dist.DistNetworkError as error:
        if liveness is not None:
            liveness.look_again()  # the process that is gone may be one of the ranks
        raise gqsgd.PeerLost(
            f"the process that holds the store of the process group is gone: {error}"
        ) from error


class WatchedStore(dist.Store):
    """A store in which a Gloo group finds its ranks, and whose waits end when one is gone."""

    def __init__(self, store: dist.Store, liveness: Liveness, timeout: timedelta):
        super().__init__()
        self._store, self._timeout = store, timeout
        self._liveness: Liveness | None = liveness

    def forget_group(self) -> None:
        """The Gloo group is there: it keeps this store, which need not keep the first group."""
        self._liveness = None

    def set(self, key: str, value: Any) -> None:
        self._store.set(key, value)

    def get(self, key: str) -> bytes:
        self.wait([key])
        value: bytes = self._store.get(key)
        return value

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        for key in keys:
            if not wait_for_key(self._store, key, timeout or self._timeout, self._liveness):
                raise gqsgd.Timeout(f"a rank has not stored its address ({key}) for a Gloo group")

    def check(self, keys: list[str]) -> bool:
        return self._store.check(keys)

    def add(self, key: str, amount: int) -> int:
        return self._store.add(key, amount)
