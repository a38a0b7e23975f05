"""GlooLinks: threads that wait for the operations of a Gloo group, and what they learn of peers."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

import gqsgd

_FOR_EVER = timedelta(days=365)  # Gloo's own timeout would close all connections of the group
_NOTICE_TAG, _UNUSED_TAG = 0, 2**31 - 1
_CLOSED = -1  # a notice: the peer has closed its communicator; other notices are a lost rank

# How long a peer's connection may be gone before that fails a call: the peer may have finished
# the last call and ended without a notice, and this rank be about to finish it, too.
_GRACE_S = 0.1
_NOTICE_TIMEOUT_S = 0.5  # for a notice to reach the kernel, which it does at once
_JOIN_TIMEOUT_S = 10.0  # for threads that have nothing left to wait for


class GlooLinks:
    """The connections of this rank to its peers.

    Gloo cannot test whether a message has come: it can only wait. So each peer has a thread that
    waits for what is received from it, and one more waits for sends. A second thread of each peer
    waits for its notice, the one message that a rank sends when it closes or has lost another rank:
    it sees at once when the connection breaks, and a rank that aborts is not taken for the cause.
    No thread outlives `close`, and none keeps a reference to Gloo while it idles: as Python ends,
    either would end the process with std::terminate.
    """

    def __init__(self, group: dist.ProcessGroupGloo):
        self._group: dist.ProcessGroupGloo | None = group
        self._process = os.getpid()
        self._rank = group.rank()
        self._peers = [peer for peer in range(group.size()) if peer != self._rank]
        self._changed = threading.Condition()
        self._change_count = self._seen_count = 0
        self._done: set[int] = set()  # requests that were not tested yet
        self._failure: str | None = None
        self._lost_rank, self._failure_due_s = self._rank, 0.0
        self._gone: dict[int, str] = {}  # how, by peer: no operation with it can succeed
        self._gone_known = {peer: threading.Event() for peer in self._peers}
        self._notices: list[Any] | None = None  # sends of this rank's notice
        name = f"gqsgd group transport of rank {self._rank}"
        self._receivers = {
            peer: _Waiter(f"{name}, messages of {peer}") for peer in self._peers}
        self._watchers = {peer: _Waiter(f"{name}, state of {peer}") for peer in self._peers}
        self._sender = _Waiter(f"{name}, sends")
        try:
            for peer in self._peers:
                notice = torch.full((1,), _CLOSED)
                ended = partial(self._notice_ended, peer, notice)
                self._start(self._watchers[peer], group.recv, notice, peer, _NOTICE_TAG, ended)
        except BaseException:
            self.close()
            raise

    def send(self, values: torch.Tensor, peer: int, tag: int, request: int) -> None:
        """Starts to send; `take` reports when that is done, `peer` need not have it then."""
        ended = partial(self._ended, peer, request)
        self._start(self._sender, self._open_group().send, values, peer, tag, ended)

    def receive(self, landing: torch.Tensor, peer: int, tag: int, request: int) -> None:
        ended = partial(self._ended, peer, request)
        receive = self._open_group().recv
        self._start(self._receivers[peer], receive, landing, peer, tag, ended)

    def take(self, request: int) -> bool:
        """True once for a request that is done."""
        with self._changed:
            is_done = request in self._done
            self._done.discard(request)
            return is_done

    def progress(self, timeout_s: float) -> None:
        """Returns when a request was done since the last wait, or raises PeerLost."""
        end_s = time.monotonic() + timeout_s
        with self._changed:
            while self._change_count == self._seen_count:
                now_s = time.monotonic()
                if self._failure is not None and now_s >= self._failure_due_s:
                    break
                if now_s >= end_s:
                    return
                due_s = end_s if self._failure is None else min(end_s, self._failure_due_s)
                self._changed.wait(due_s - now_s)
            if timeout_s > 0:  # who only looks may wait next, without a test between the two
                self._seen_count = self._change_count
            failure = self._failure if time.monotonic() >= self._failure_due_s else None
        if failure is not None:
            self._tell(self._lost_rank)
            raise gqsgd.PeerLost(failure)

    def close(self) -> None:
        """Notifies the peers, breaks the connections and ends all threads."""
        if self._group is None or os.getpid() != self._process:
            return  # a child after fork shares the sockets with its parent, which keeps them
        self._tell(_CLOSED)
        for notice in self._notices or []:
            with contextlib.suppress(RuntimeError):
                notice.wait(timedelta(seconds=_NOTICE_TIMEOUT_S))
        self._notices = []
        for peer in self._peers:
            self._break(peer)
        waiters = [self._sender, *self._receivers.values(), *self._watchers.values()]
        for waiter in waiters:
            waiter.end()
        for waiter in waiters:
            waiter.join(_JOIN_TIMEOUT_S)
        self._group = None

    def _open_group(self) -> dist.ProcessGroupGloo:
        if self._group is None:
            raise gqsgd.BadHandle("the group transport is closed, as it is when Python ends")
        return self._group

    def _start(
        self,
        waiter: _Waiter,
        function: Callable[..., Any],
        values: torch.Tensor,
        peer: int,
        tag: int,
        ended: Callable[[str | None], None],
    ) -> None:
        try:
            work = function([values], peer, tag)
        except RuntimeError as error:
            self._lose(peer, gloo_reason(error))
            self._tell(peer)
            raise gqsgd.PeerLost(self._failure) from error
        waiter.give(work, ended)

    def _ended(self, peer: int, request: int, reason: str | None) -> None:
        """An operation with `peer` is done, or failed for a reason."""
        if reason is not None:
            self._lose(peer, reason)
            return
        with self._changed:
            self._done.add(request)
            self._change_count += 1
            self._changed.notify_all()

    def _lose(self, peer: int, reason: str) -> None:
        """An operation with `peer` has failed. Its notice, sent before the connection broke, has
        the reason; the thread that waits for it wakes for the same reason as this one."""
        self._gone_known[peer].wait(_NOTICE_TIMEOUT_S)
        self._fail(peer, self._gone.get(peer, f"its connection broke: {reason}"), grace_s=0)

    def _notice_ended(self, peer: int, notice: torch.Tensor, reason: str | None) -> None:
        lost = int(notice.item())
        if reason is not None:
            self._gone[peer] = f"its connection broke: {reason}"
            self._fail(peer, self._gone[peer], _GRACE_S)
        elif lost == _CLOSED:  # fails nothing that does not need the peer
            self._gone[peer] = "it has closed its communicator"
        else:
            self._gone[peer] = f"it has given up because of rank {lost}"
            self._fail(lost, f"so rank {peer} reports", grace_s=0)
        self._gone_known[peer].set()

    def _fail(self, lost_rank: int, how: str, grace_s: float) -> None:
        """The first failure is the cause; a later one may only end its grace."""
        due_s = time.monotonic() + grace_s
        with self._changed:
            if self._failure is None:
                self._failure, self._lost_rank = f"rank {lost_rank} is gone: {how}", lost_rank
                self._failure_due_s = due_s
            self._failure_due_s = min(self._failure_due_s, due_s)
            self._changed.notify_all()

    def _tell(self, notice: int) -> None:
        """Sends this rank's one notice to all peers that are there."""
        if self._notices is not None:
            return
        self._notices = notices = []
        send = self._open_group().send
        for peer in self._peers:
            with contextlib.suppress(RuntimeError):
                notices.append(send([torch.tensor([notice])], peer, _NOTICE_TAG))

    def _break(self, peer: int) -> None:
        """Closes all connections: Gloo does that when a wait for one operation times out, and has
        no other way that wakes those who wait for the rest."""
        byte = torch.empty(1, dtype=torch.uint8)
        with contextlib.suppress(RuntimeError):
            receive = self._open_group().recv([byte], peer, _UNUSED_TAG)
            receive.wait(timedelta(milliseconds=1))


class _Waiter:
    """A thread that waits for operations in the order in which it is given them."""

    def __init__(self, name: str):
        self._operations: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=_wait_for_all, args=(self._operations,), name=name, daemon=True)
        self._thread.start()

    def give(self, work: dist.Work, ended: Callable[[str | None], None]) -> None:
        """Has `work` waited for; `ended` is called with None, or the reason of its failure."""
        self._operations.put((work, ended))

    def end(self) -> None:
        self._operations.put(None)

    def join(self, timeout_s: float) -> None:
        if self._thread is not threading.current_thread():  # the collector runs on any thread
            self._thread.join(timeout_s)


def _wait_for_all(operations: queue.SimpleQueue[Any]) -> None:
    while (operation := operations.get()) is not None:
        work, ended = operation
        reason = None
        try:
            work.wait(_FOR_EVER)
        except Exception as error:
            reason = gloo_reason(error)
        operation = work = None  # before anything else: the work is Gloo's
        ended(reason)
        ended = None


def gloo_reason(error: Exception) -> str:
    """Gloo's message, without its source file and its advice."""
    return re.sub(r"^\[\S*\] ", "", str(error)).split(". ")[0][:120]
