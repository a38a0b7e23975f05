"""Request: a nonblocking collective."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from .. import _abi
from ..errors import BadHandle, Busy, Forked, GqsgdError, check

if TYPE_CHECKING:
    from ..communicator import Communicator


class Request:
    """What `Communicator.allreduce_start` returns; `wait` gives the result.

    A context manager: leaving it waits. A request that is dropped still runs; its communicator
    keeps the arrays until it has ended.
    """

    __slots__ = ("__weakref__", "_comm", "_error", "_handle", "_result")

    def __init__(self, comm: Communicator, handle: int, result: Any):
        """Takes over a token of the library; users call `allreduce_start`."""
        self._comm = comm
        self._handle: int | None = handle
        self._result = result
        self._error: GqsgdError | None = None

    def test(self) -> bool:
        """True once the collective has ended; never waits. Raises what it failed with."""
        if self._handle is not None:
            done = ctypes.c_int32()
            self._ask(_abi.library().gqsgd_request_test, done, self._handle, ctypes.byref(done))
        return self._handle is None and self._outcome()

    def wait(self) -> Any:
        """Returns the result (`out`, if it was given) when the collective has ended, or raises what
        it failed with, then and at every later call. Other threads run meanwhile; Ctrl-C is seen
        afterwards."""
        if self._handle is not None:
            self._ask(_abi.library().gqsgd_request_wait, ctypes.c_int32(1), self._handle)
        self._outcome()
        return self._result

    def _ask(self, function: Any, done: ctypes.c_int32, *arguments: Any) -> None:
        """Calls `function` and notes its answer, which it gives only once, whatever comes then."""
        answers: list[int] = []
        try:
            with self._comm._interruptible():
                # No Python code between answer and list: Ctrl-C comes before both or after both.
                answers.extend(map(function, *zip(arguments)))
            self._note(answers[0], ended=done.value != 0)
        except GqsgdError:
            raise
        except BaseException:  # Ctrl-C, perhaps before all was noted
            if answers:
                with suppress(BaseException):
                    self._note(answers[0], ended=done.value != 0)
            raise

    def _note(self, status: int, ended: bool) -> None:
        raised: BaseException | None = None
        try:
            check(status)
        except (Busy, Forked):  # of this question, not of the collective
            raise
        except GqsgdError as error:
            table, self._error = self._comm._table, error
            raised = error if table is None else table.explained(error)
        if ended:
            self._comm._in_flight.forget(self._handle)
            self._handle = None
        if raised is not None:
            raise raised

    def _outcome(self) -> bool:
        if self._error is not None:
            raise self._error
        return True

    def __enter__(self) -> Request:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.wait()

    def __repr__(self) -> str:
        state = "under way" if self._handle else "failed" if self._error else "ended"
        return f"<Request of rank {self._comm.rank}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a request belongs to its process and cannot be pickled or copied")

    def __del__(self) -> None:
        # No call of the library here: the collector runs on any thread.
        if getattr(self, "_handle", None):
            self._comm._in_flight.drop(self._handle)


class InFlight:
    """What the requests of a communicator use, kept alive until they have ended: arrays by token of
    the library, of requests that were dropped, too."""

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
            status = test(request, ctypes.byref(done))
            if done.value or status == BadHandle.status:  # Ctrl-C has hidden that it ended
                self._dropped.remove(request)
                self.forget(request)
