"""Transport: what moves bytes between ranks, written in Python, and the C table made of it."""

from __future__ import annotations

import ctypes
import operator
import warnings
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

from . import _transport
from .arguments import c_string, integer
from .errors import GqsgdError, check
from .interrupt import Interrupt

_FAILED = 1  # the one code that a table written in Python returns; its message is the exception's


class Transport(ABC):
    """A rank's way to reach the others; derive from it and pass an object to
    `Communicator.custom`.

    Methods are called on the thread that called the communicator and on no other, one at a time,
    and must not call the communicator. What they raise fails the call under way with Backend, whose
    cause it is; what is no Exception, KeyboardInterrupt or SystemExit, is raised itself. `send` and
    `receive` start something and return at once with a number of their choice; the bytes are the
    library's and stay where they are until `test` has returned that it is done, and no longer: do
    not keep the memoryview. Between two ranks messages arrive in the order in which they were sent;
    both ends know their sizes; a message is never empty.
    """

    rank: int  #: this rank, 0 to size - 1
    size: int  #: ranks in the group
    name: str = "custom"  #: what `Communicator.transport` is

    @abstractmethod
    def send(self, peer: int, data: memoryview) -> int:
        """Starts to send bytes to a peer; it may be done before the peer receives."""

    @abstractmethod
    def receive(self, peer: int, buffer: memoryview) -> int:
        """Starts to receive the next message of a peer."""

    @abstractmethod
    def test(self, request: int) -> int | None:
        """The size in bytes of a request that is done, whose number is then forgotten; None while
        it is under way. Never waits."""

    @abstractmethod
    def progress(self, timeout_s: float) -> None:
        """Moves everything under way as far as it goes. Returns as soon as a request is done that
        was not when it was called, otherwise after about `timeout_s` seconds, in which it may
        sleep; 0 only looks."""

    @abstractmethod
    def close(self) -> None:
        """The communicator has ended: cancels what is under way without waiting for any peer.
        Called once, last. Raise if buffers may still be read or written: then they stay where they
        are for the life of the process, with a RuntimeWarning."""


class Table:
    """The fields of the C table over one transport. The library has their addresses: it has to
    outlive the communicator."""

    def __init__(self, transport: Transport):
        self._transport = transport
        self._interrupt = Interrupt()
        self._raised: BaseException | None = None  # by a method, in the call under way
        self._text = ctypes.create_string_buffer(b"")
        self._fields = {
            "name": c_string("name", transport.name),
            "send": _transport.Send(self._send),
            "receive": _transport.Receive(self._receive),
            "test": _transport.Test(self._test),
            "progress": _transport.Progress(self._progress),
            "close": _transport.Close(self._close),
            "error_text": _transport.ErrorText(self._error_text),
        }

    def create(self, options: bytes) -> int:
        """A handle of a communicator over the table."""
        rank = integer("rank", self._transport.rank, ctypes.c_int32)
        size = integer("size", self._transport.size, ctypes.c_int32)
        return _transport.create(rank, size, self._fields, options)

    def checked(self, function: Any, *arguments: Any) -> None:
        """Runs a function of the library that may call the transport."""
        with self.interruptible():
            try:
                check(function(*arguments))
            except GqsgdError as error:
                raise self.explained(error)

    def interruptible(self) -> Interrupt:
        """The context of such a call."""
        self._interrupt, self._raised = Interrupt(), None
        return self._interrupt

    def explained(self, error: GqsgdError) -> BaseException:
        """What to raise for an error of such a call."""
        raised, self._raised = self._raised, None
        if raised is None or isinstance(raised, Exception):
            error.__cause__ = raised
            return error
        raised.__cause__ = error
        return raised

    def _send(self, _: Any, peer: int, address: int, size_bytes: int, request: Any) -> int:
        return self._start("send", peer, address, size_bytes, request)

    def _receive(self, _: Any, peer: int, address: int, size_bytes: int, request: Any) -> int:
        return self._start("receive", peer, address, size_bytes, request)

    def _start(self, method: str, peer: int, address: int, size_bytes: int, request: Any) -> int:
        try:
            self._interrupt.look()
            memory = (ctypes.c_ubyte * size_bytes).from_address(address)
            number = getattr(self._transport, method)(peer, memoryview(memory).cast("B"))
            request[0] = integer(f"what {method} returned", number, ctypes.c_uint64)
        except BaseException as error:
            return self._failed(error)
        return 0

    def _test(self, _: Any, request: int, done: Any, size_bytes: Any) -> int:
        try:
            self._interrupt.look()
            came_bytes = self._transport.test(request)
            done[0] = 0
            if came_bytes is not None:
                size_bytes[0] = _size(came_bytes)
                done[0] = 1
        except BaseException as error:
            return self._failed(error)
        return 0

    def _progress(self, _: Any, timeout_us: int) -> int:
        try:
            self._interrupt.look()
            self._transport.progress(timeout_us / 1e6)
        except BaseException as error:
            return self._failed(error)
        return 0

    def _close(self, _: Any) -> int:
        try:
            self._transport.close()
        except BaseException as error:
            _tell_unheard(error)
            return self._failed(error)
        return 0

    def _failed(self, error: BaseException) -> int:
        if self._raised is None:
            self._raised = error
        self._text = ctypes.create_string_buffer(_sentence(error).encode(errors="replace"))
        return _FAILED

    def _error_text(self, _: Any, code: int) -> int:
        return ctypes.addressof(self._text)


def _size(came_bytes: Any) -> int:
    """What `test` returned of a request that is done."""
    if isinstance(came_bytes, bool) or not hasattr(came_bytes, "__index__"):
        raise TypeError(
            f"test returned {came_bytes!r}; it returns the size in bytes of a request that is "
            "done, an int, or None while it is under way"
        )
    size_bytes = operator.index(came_bytes)
    if not 0 <= size_bytes < 1 << 8 * ctypes.sizeof(ctypes.c_size_t):
        raise ValueError(f"test returned {size_bytes}, which is no size in bytes")
    return size_bytes


def _tell_unheard(error: BaseException) -> None:
    """A communicator that ends has no caller to raise it to: the collector may have ended it."""
    with suppress(Warning):  # where warnings are errors
        warnings.warn(
            f"a transport's close raised {_sentence(error)}; buffers of its communicator stay for "
            "the life of the process",
            RuntimeWarning,
        )


def _sentence(error: BaseException) -> str:
    """A callback that raised would report a success to the library, so nothing raises here."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
