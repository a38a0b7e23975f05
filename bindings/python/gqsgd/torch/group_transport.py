"""GroupTransport: messages of a communicator as sends and receives of a torch process group."""

from __future__ import annotations

import ctypes
import queue
import threading
from typing import Any

import torch
import torch.distributed as dist

from gqsgd.transport import Transport

_TAG_COUNT = 2**31  # tags of a group are 31 bits


class GroupTransport(Transport):
    """One rank's end of a transport over a Gloo group that nobody else uses.

    Gloo cannot be asked whether a message has come: whoever wants to know waits. So each peer has a
    thread that waits for what is received from it, and one more waits for sends, only to let go of
    their memory. What is under way lies in tensors of its own: an operation that is given up can
    reach no memory of the library.
    """

    def __init__(self, group: dist.ProcessGroup):
        self._group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._global_ranks = dist.get_process_group_ranks(group)
        self._newest = 0
        self._sent, self._received = [0] * self.size, [0] * self.size  # messages: tags
        self._buffers: dict[int, tuple[memoryview, torch.Tensor]] = {}  # of receives under way
        self._news = threading.Condition()
        self._done: set[int] = set()  # requests that nobody has asked for yet
        self._news_count = 0
        self._failure: Exception | None = None
        self._waiters: dict[int, _Waiter] = {}  # by peer; the own rank's is that of sends

    def send(self, peer: int, data: memoryview) -> int:
        copy = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        work = dist.isend(copy, self._global_ranks[peer], self._group, _tag(self._sent, peer))
        self._waiter(self.rank).give(0, work, copy)
        self._newest += 1
        self._done.add(self._newest)  # the bytes given are not looked at any more
        return self._newest

    def receive(self, peer: int, buffer: memoryview) -> int:
        landing = torch.empty(len(buffer), dtype=torch.uint8)
        tag = _tag(self._received, peer)
        work = dist.irecv(landing, self._global_ranks[peer], self._group, tag)
        self._newest += 1
        self._buffers[self._newest] = buffer, landing
        self._waiter(peer).give(self._newest, work, landing)
        return self._newest

    def test(self, request: int) -> int | None:
        if request not in self._done:
            return None
        self._done.discard(request)
        buffer, landing = self._buffers.pop(request, (None, None))
        if buffer is None:
            return 0  # a send, whose size nobody asks for
        ctypes.memmove(_address(buffer), landing.data_ptr(), len(buffer))
        return len(buffer)

    def progress(self, timeout_s: float) -> None:
        with self._news:
            seen = self._news_count
            if timeout_s > 0 and self._failure is None:
                self._news.wait_for(lambda: self._news_count != seen, timeout_s)
            if self._failure is not None:
                raise self._failure

    def close(self) -> None:
        for waiter in self._waiters.values():
            waiter.end()

    def note(self, request: int, failure: Exception | None) -> None:
        """A waiter has seen the end of a request; 0 is a send."""
        with self._news:
            self._failure = self._failure or failure
            if request:
                self._done.add(request)
            self._news_count += 1
            self._news.notify_all()

    def _waiter(self, peer: int) -> _Waiter:
        if peer not in self._waiters:
            self._waiters[peer] = _Waiter(self, f"gqsgd group transport, peer {peer}")
        return self._waiters[peer]


class _Waiter:
    """A thread that waits for operations in the order in which it is given them.

    It may be in an operation that will never end; then it ends with the process.
    """

    def __init__(self, transport: GroupTransport, name: str):
        self._operations: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._transport = transport
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def give(self, request: int, work: dist.Work, memory: torch.Tensor) -> None:
        """Has `work` waited for; `memory` is kept until then."""
        self._operations.put((request, work, memory))

    def end(self) -> None:
        self._operations.put(None)

    def _run(self) -> None:
        while (operation := self._operations.get()) is not None:
            request, work, _ = operation
            failure = None
            try:
                work.wait()
            except Exception as error:
                failure = error
            self._transport.note(request, failure)


def _tag(counts: list[int], peer: int) -> int:
    counts[peer] += 1
    return counts[peer] % _TAG_COUNT


def _address(buffer: memoryview) -> int:
    return ctypes.addressof((ctypes.c_ubyte * len(buffer)).from_buffer(buffer))
