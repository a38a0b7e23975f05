"""The thread that makes the calls of one quorum, one after the other, and the works that torchft
waits for."""

from __future__ import annotations

import concurrent.futures
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

import gqsgd

_LOGGER = logging.getLogger("gqsgd")


class ReduceWork(dist._Work):  # type: ignore[misc]
    """An allreduce under way. Its failure is that of the future and of the group's `errored()`, as
    torchft's manager reads it: torchft's DDP ends a program where `wait` raises."""

    def __init__(self, result: torch.futures.Future[Any], ended: concurrent.futures.Future[None]):
        super().__init__()
        self._result, self._ended = result, ended

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Returns True once the tensors have the result, False after a failure. Raises RuntimeError
        once `timeout` has passed; the call then still goes on."""
        seconds = timeout.total_seconds() if timeout else None
        done, _ = concurrent.futures.wait([self._ended], seconds)
        if not done:
            raise RuntimeError(f"Timed out waiting {seconds} s for an allreduce")
        return self._ended.exception() is None

    def get_future(self) -> torch.futures.Future[Any]:
        return self._result


class ExactWork(dist._Work):  # type: ignore[misc]
    """The same for an allreduce of the wrapped group, whose `wait` may raise."""

    def __init__(self, work: dist.Work, report: Callable[[Exception], None]):
        super().__init__()
        self._work, self._report = work, report

    def wait(self, timeout: timedelta | None = None) -> bool:
        try:
            return bool(self._work.wait() if timeout is None else self._work.wait(timeout))
        except Exception as error:
            self._report(error)
            return False

    def get_future(self) -> torch.futures.Future[Any]:
        return self._work.get_future()


class Worker:
    """One communicator, on which one thread calls."""

    def __init__(self, comm: gqsgd.Communicator):
        self.comm = comm
        self.failure: Exception | None = None  #: the first one, of exact allreduces too
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gqsgd torchft")

    def allreduce(
        self, tensors: list[torch.Tensor], quantizer: gqsgd.Quantizer, op: str
    ) -> ReduceWork:
        """In place; `tensors` are those of the caller, of one dtype and any shape and strides."""
        result: torch.futures.Future[Any] = torch.futures.Future()
        ended = self._thread.submit(self._call, tensors, quantizer, op, result)
        return ReduceWork(result, ended)

    def report(self, error: Exception) -> None:
        """Keeps the first failure, which the log has once."""
        if self.failure is None:
            self.failure = error
            _LOGGER.warning("an allreduce of a quorum failed: %s", error)

    def abort(self) -> None:
        with suppress(gqsgd.GqsgdError):  # it is closed
            self.comm.abort()

    def end(self) -> dict[str, Any]:
        """Ends calls under way, and returns what the next quorum continues."""
        self.abort()
        self._thread.shutdown(wait=True, cancel_futures=False)
        after = {"counter": self.comm.counter, "costs": self.comm.costs}
        self.comm.close()
        return after

    def _call(
        self,
        tensors: list[torch.Tensor],
        quantizer: gqsgd.Quantizer,
        op: str,
        result: torch.futures.Future[Any],
    ) -> None:
        try:
            self._reduce([tensor.detach() for tensor in tensors], quantizer, op)
        except Exception as error:
            self.report(error)
            result.set_exception(error)
            raise
        result.set_result(tensors)

    def _reduce(self, tensors: list[torch.Tensor], quantizer: gqsgd.Quantizer, op: str) -> None:
        """Tensors that are not contiguous are reduced as copies."""
        flat = [tensor.contiguous() for tensor in tensors]
        if len(flat) == 1:
            self.comm.allreduce(flat[0], quantizer, op=op, out=flat[0])
        else:
            self.comm.allreduce_many(flat, quantizer, op=op, out=flat)
        for tensor, reduced in zip(tensors, flat, strict=True):
            if reduced is not tensor:
                tensor.copy_(reduced)
