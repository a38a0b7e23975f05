"""GroupTransport: messages of a communicator as sends and receives of a Gloo group."""

from __future__ import annotations

import ctypes
import weakref

import torch
import torch.distributed as dist

from gqsgd.transport import Transport

from .gloo_links import GlooLinks

_TAG_COUNT = 2**31 - 2  # tags of a group are 31 bits; links use the first and the last


class GroupTransport(Transport):
    """One rank's end of a transport over a Gloo group that has no other user.

    Messages under way lie in tensors of their own: an operation that is given up can reach no
    memory of the library. Closing, which also happens when the interpreter exits, ends the group.
    """

    name = "group"

    def __init__(self, group: dist.ProcessGroupGloo):
        self.rank, self.size = group.rank(), group.size()
        self._links = GlooLinks(group)
        # At exit as well: Python must not end while its threads wait in Gloo.
        self._end = weakref.finalize(self, self._links.close)
        self._newest = 0
        self._sent, self._received = [0] * self.size, [0] * self.size  # messages: tags
        self._buffers: dict[int, tuple[memoryview, torch.Tensor]] = {}  # of receives under way

    def send(self, peer: int, data: memoryview) -> int:
        copy = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        self._newest += 1
        self._links.send(copy, peer, _tag(self._sent, peer), self._newest)
        return self._newest

    def receive(self, peer: int, buffer: memoryview) -> int:
        landing = torch.empty(len(buffer), dtype=torch.uint8)
        self._newest += 1
        self._links.receive(landing, peer, _tag(self._received, peer), self._newest)
        self._buffers[self._newest] = buffer, landing
        return self._newest

    def test(self, request: int) -> int | None:
        if not self._links.take(request):
            return None
        buffer, landing = self._buffers.pop(request, (None, None))
        if buffer is None:
            return 0  # a send, whose size the library does not read
        ctypes.memmove(_address(buffer), landing.data_ptr(), len(buffer))
        return len(buffer)

    def progress(self, timeout_s: float) -> None:
        self._links.progress(timeout_s)

    def close(self) -> None:
        self._end()
        self._buffers.clear()


def _tag(counts: list[int], peer: int) -> int:
    counts[peer] += 1
    return counts[peer] % _TAG_COUNT + 1


def _address(buffer: memoryview) -> int:
    return ctypes.addressof((ctypes.c_ubyte * len(buffer)).from_buffer(buffer))
