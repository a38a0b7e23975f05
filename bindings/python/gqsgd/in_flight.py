"""InFlight: what the requests of a communicator use, kept alive until they have ended."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _abi


class InFlight:
    """Arrays by request, as tokens of the library; of requests that were dropped, too."""

    __slots__ = ("_arrays", "_dropped")

    def __init__(self) -> None:
        self._arrays: dict[int, Any] = {}
        self._dropped: list[int] = []  # no call will wait for these

    def keep(self, request: int, arrays: Any) -> None:
        self._arrays[request] = arrays

    def forget(self, request: int | None) -> None:
        """The library has reported the end of a request: its arrays are not in use any more."""
        self._arrays.pop(request or 0, None)

    def drop(self, request: int) -> None:
        """Calls nothing of the library: the collector runs on any thread."""
        self._dropped.append(request)

    def free_dropped(self) -> None:
        """Lets go of what has ended of the requests that were dropped without a wait."""
        test, done = _abi.library().gqsgd_request_test, ctypes.c_int32()
        for request in self._dropped[:]:
            test(request, ctypes.byref(done))
            if done.value:
                self._dropped.remove(request)
                self.forget(request)
