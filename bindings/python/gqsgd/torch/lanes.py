"""Lanes: how the calls of a state go on beside backward, on host memory by a thread, on a GPU by a
stream."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch

import gqsgd

from . import devices
from .report import Record
from .worker import Outcome, Worker

Call = dict[str, Any]  #: the arguments of one allreduce_many


class Lane(ABC):
    """The way through a communicator, in the order in which calls are given to it."""

    on_host = True  #: False where gradients are on a GPU

    def __init__(self, comm: gqsgd.Communicator, is_borrowed: bool):
        self.comm = comm
        self.call_ns = 0  #: time in calls so far; 0 on streams, for which no host waits
        self._is_borrowed = is_borrowed

    def begin(self) -> None:
        """A new backward pass, which knows nothing of failures of the last one."""

    @abstractmethod
    def outcome(self, buffer: torch.Tensor) -> Any:
        """What is to come of a bucket that is ready now: its `future` is for DDP."""

    @abstractmethod
    def run(
        self, calls: Sequence[Call], outcomes: Sequence[Any], records: Sequence[Record] = ()
    ) -> None:
        """Has the calls made and then the outcomes set; `records` are theirs."""

    def close(self) -> None:
        """Frees the communicator, unless it is the caller's."""
        if not self._is_borrowed:
            self.comm.close()


class Backward:
    """The calls of one backward pass, up to the first that fails, which fails on all ranks alike.
    The rank that gets the failure first may close its communicator: in a later call, the other
    ranks would report that closing instead of the cause."""

    def __init__(self) -> None:
        self._failure: BaseException | None = None

    def reduce(
        self, comm: gqsgd.Communicator, calls: Sequence[Call], records: Sequence[Record]
    ) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            _reduce(comm, calls, records)
        except BaseException as error:
            self._failure = error
            raise


class ThreadLane(Lane):
    """For host memory: calls wait for other ranks, on a thread that has nothing else to do."""

    def __init__(self, comm: gqsgd.Communicator, is_borrowed: bool):
        super().__init__(comm, is_borrowed)
        self._worker = Worker(f"gqsgd hook, rank {comm.rank}")
        self._backward = Backward()

    def begin(self) -> None:
        self._backward = Backward()

    def outcome(self, buffer: torch.Tensor) -> Outcome:
        return Outcome(buffer)

    def run(
        self, calls: Sequence[Call], outcomes: Sequence[Outcome], records: Sequence[Record] = ()
    ) -> None:
        self._worker.submit(partial(self._reduce, self._backward, calls, records), outcomes)

    def _reduce(self, backward: Backward, calls: Sequence[Call], records: Sequence[Record]) -> None:
        begin_ns = time.monotonic_ns()
        try:
            backward.reduce(self.comm, calls, records)
        finally:
            self.call_ns += time.monotonic_ns() - begin_ns

    def close(self) -> None:
        super().close()  # a call under way ends with Aborted
        self._worker.end()


class StreamOutcome:
    """A bucket, and the future that is set once its average is enqueued."""

    def __init__(self, buffer: torch.Tensor):
        self._buffer = buffer
        self._future = devices.cuda.future(buffer.device)

    def future(self) -> torch.futures.Future[torch.Tensor]:
        return self._future

    def set(self) -> None:
        self._future.set_result(self._buffer)


class StreamLane(Lane):
    """For a GPU: calls are enqueued at once, on a stream of their own behind what fills the
    buckets. What fails is raised here, by the hook. In a CUDA graph that stream is a branch, which
    begins at a bucket and ends where its future is waited for."""

    on_host = False

    def __init__(self, comm: gqsgd.Communicator, is_borrowed: bool, device: torch.device):
        super().__init__(comm, is_borrowed)
        self._device, self.stream = device, devices.cuda.new_stream(device)

    def outcome(self, buffer: torch.Tensor) -> StreamOutcome:
        self.stream.wait_stream(devices.cuda.current_stream(self._device))
        # DDP waits before it frees a bucket; after an error it does not.
        devices.cuda.keep(buffer, self.stream)
        return StreamOutcome(buffer)

    def run(
        self, calls: Sequence[Call], outcomes: Sequence[StreamOutcome],
        records: Sequence[Record] = (),
    ) -> None:
        with devices.cuda.on_stream(self.stream):
            _reduce(self.comm, [{**call, "stream": self.stream} for call in calls], ())
            for call, record in zip(calls, records):
                record.measure(call)
            for outcome in outcomes:
                outcome.set()


def lane_of(comm: gqsgd.Communicator, is_borrowed: bool, device: torch.device) -> Lane:
    if device == devices.CPU:
        return ThreadLane(comm, is_borrowed)
    return StreamLane(comm, is_borrowed, device)


def _reduce(comm: gqsgd.Communicator, calls: Sequence[Call], records: Sequence[Record]) -> None:
    """Has no reference to a state, so that it can be dropped."""
    for k, call in enumerate(calls):
        with records[k].around(comm, call) if records else nullcontext():
            with torch.profiler.record_function("gqsgd.allreduce_many"):
                comm.allreduce_many(**call)
