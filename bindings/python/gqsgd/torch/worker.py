"""Worker: a thread that does what it is given, in that order, and completes futures."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Outcome:
    """What is to come of a job: `result`, or what the job raised."""

    result: Any
    _raw: torch.futures.Future[Any] = field(default_factory=torch.futures.Future)

    def future(self) -> torch.futures.Future[Any]:
        """For callers. An exception in a future would be a value to C++, but what a callback
        raises is an error to Python and C++."""
        return self._raw.then(_value)

    def set(self, failure: BaseException | None) -> None:
        self._raw.set_result((self.result, failure))


class Worker:
    """One thread for the collectives of one communicator, so that the starting thread continues."""

    def __init__(self, name: str):
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=_run, args=(self._jobs,), name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], None], outcomes: Sequence[Outcome]) -> None:
        """Has `work` called; then all outcomes are set."""
        self._jobs.put((work, outcomes))

    def end(self) -> None:
        """Returns when the thread has ended, which is after all jobs."""
        self._jobs.put(None)
        if self._thread is not threading.current_thread():  # the collector runs on any thread
            self._thread.join()


def _run(jobs: queue.SimpleQueue[Any]) -> None:
    while (job := jobs.get()) is not None:
        work, outcomes = job
        failure = None
        try:
            work()
        except BaseException as error:  # a future that never ends would be a hang
            failure = error
        for outcome in outcomes:
            outcome.set(failure)
        job = work = outcomes = outcome = failure = None  # who is idle keeps nothing alive


def _value(raw: torch.futures.Future[Any]) -> Any:
    result, failure = raw.value()
    if failure is not None:
        raise failure
    return result
