"""run_local: the ranks of a group as threads of this process."""

from __future__ import annotations

import threading
from typing import Any, Callable, TypeVar

from .communicator import Communicator
from .errors import Aborted, GqsgdError, PeerLost, RemoteError, Revoked

_Result = TypeVar("_Result")
_Failure = tuple[int, BaseException]  # rank and what it raised


def run_local(n: int, fn: Callable[[Communicator], _Result], **options: Any) -> list[_Result]:
    """Calls `fn(comm)` on `n` threads, one per rank of a new group; the results in rank order.

    Options are those of Communicator. The communicators are closed at the end.

    When `fn` raises on one rank, every communicator is aborted, so that no rank waits for it. Then
    the first error that is not the echo of another rank's is raised here, unchanged.
    """
    comms = Communicator.local(n, **options)
    try:
        results, failures = _run(comms, fn)
    finally:
        for comm in comms:
            comm.close()
    if failures:
        raise _cause(failures)
    return [results[rank] for rank in range(len(comms))]


def _run(comms: list[Communicator], fn: Callable[[Communicator], Any]) -> Any:
    results, failures = {}, []

    def work(comm: Communicator) -> None:
        try:
            results[comm.rank] = fn(comm)
        except BaseException as error:  # SystemExit too: the other ranks must not wait for it
            failures.append((comm.rank, error))
            _abort([comm] + comms)  # its own first, so that the others name this rank

    threads = [
        threading.Thread(target=work, args=(comm,), name=f"gqsgd rank {comm.rank}")
        for comm in comms
    ]
    started = []
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
        for thread in started:
            thread.join()
    except BaseException:  # Ctrl-C, or a thread that could not be had
        _abort(comms)
        for thread in started:
            thread.join()
        raise
    return results, failures


def _abort(comms: list[Communicator]) -> None:
    for comm in comms:
        try:
            comm.abort()
        except GqsgdError:
            pass  # `fn` has closed this one: no thread can be waiting in it


def _cause(failures: list[_Failure]) -> BaseException:
    """The earliest failure that no other explains; one that names a culprit before one that is only
    "aborted"."""

    def distance(failure: _Failure) -> int:
        error = failure[1]
        if isinstance(error, (Aborted, Revoked)):
            return 2
        return 1 if isinstance(error, (RemoteError, PeerLost)) else 0

    rank, error = min(failures, key=distance)
    if hasattr(error, "add_note"):  # Python 3.11
        error.add_note(f"raised on rank {rank} of gqsgd.run_local")
    return error
