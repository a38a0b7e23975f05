"""The process group that torchft's manager configures for each quorum: a communicator for tensors
that a policy names, and a wrapped group for all else."""

from __future__ import annotations

import logging
import zlib
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import Work
from torchft.process_group import ProcessGroup as TorchftGroup
from torchft.process_group import ProcessGroupGloo, ProcessGroupWrapper, create_store_client

import gqsgd
from gqsgd.torch import ops
from gqsgd.torch.groups import digest

from .policy import DTYPES, LargeFloats, Policy
from .quorum import connect
from .worker import ExactWork, Worker

_LOGGER = logging.getLogger("gqsgd")

# Of random numbers: what replicas average the ranks of each may have reduced in codes before, and
# the second rounding may not follow from the first one (gqsgd.torch.groups.stream_of).
STREAM_ID = zlib.crc32(b"replicas of torchft")


def stream_of(group_rank: int | None) -> int:
    """Of the groups of one rank of each replica: those of other ranks, which have other shards,
    draw other random numbers."""
    return digest([STREAM_ID, group_rank]) if group_rank else STREAM_ID


class ProcessGroup(ProcessGroupWrapper):
    """A process group of torchft whose allreduces of large float tensors are compressed.

    quantizer: a gqsgd.Quantizer or its specification, for tensors of 1,024 floats or more.
    policy: instead, a function that returns a quantizer, its specification or None (exact) for a
        tensor, by its shape, dtype and device alone. Equal on all replicas.
    exact: the group that reduces all other tensors, and has the other collectives; by default
        torchft's ProcessGroupGloo.
    timeout: of a quorum's connections and of every call.
    options: of gqsgd.Communicator, such as threads=2 or costs="measure".

    Each quorum has a communicator of its own: shared memory where all replicas are on one machine,
    else UCX. Its counter is the largest of the members', so that random numbers are never used
    twice, and all replicas get the same bits. A failed allreduce leaves its tensors as they were;
    `wait` of its work returns False, and its error is that of the future and of `errored()`, which
    torchft's manager reads, until the next `configure`.
    """

    def __init__(
        self,
        quantizer: gqsgd.Quantizer | str = "",
        *,
        policy: Policy | None = None,
        exact: TorchftGroup | None = None,
        timeout: timedelta = timedelta(seconds=60),
        **options: Any,
    ):
        self._exact = ProcessGroupGloo(timeout=timeout) if exact is None else exact
        super().__init__(timeout=timeout, pg=self._exact)
        self._policy = LargeFloats(quantizer) if policy is None else policy
        self._options = options
        self._worker: Worker | None = None
        self._next: dict[str, Any] = {}  # what the next quorum continues
        self._named: set[str] = set()  # reasons for exact sums that the log has

    def configure(
        self,
        store_addr: str,
        replica_id: str,
        rank: int,
        world_size: int,
        *others: Any,
        **named: Any,
    ) -> None:
        """Joins a quorum, which `store_addr` names; returns when all replicas have. Raises what
        the wrapped group or gqsgd.Communicator raises: Timeout, PeerLost and so on."""
        self._end()
        self._pg = self._exact  # which abort() drops
        super().configure(store_addr, replica_id, rank, world_size, *others, **named)
        store = create_store_client(store_addr, timeout=self._timeout)
        options = {"stream_id": stream_of(self._group_rank), **self._options,
                   "timeout_ms": self._timeout_ms()}
        comm = connect(store, rank, world_size, self._next, options)
        self._worker = Worker(comm)
        _LOGGER.info(
            "torchft quorum %s: replica %d of %d over %s; %r, others exact",
            self._quorum_id, rank, world_size, comm.transport, self._policy,
        )

    def allreduce(self, tensors: list[torch.Tensor], opts: object) -> Work:
        return self._reduced(tensors, opts) or self._reported(super().allreduce(tensors, opts))

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: object) -> Work:
        work = self._reduced(tensors, opts)
        return work or self._reported(super().allreduce_coalesced(tensors, opts))

    def state_dict(self) -> dict[str, int]:
        """What a checkpoint needs for other random numbers after it than before it."""
        worker = self._worker
        return {"counter": self._next.get("counter", 0) if worker is None else worker.comm.counter}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Before the first quorum, on any replica: the quorum has the largest counter of all."""
        self._next = {**self._next, "counter": state["counter"]}

    def abort(self, errored: bool = True) -> None:
        """Ends calls under way, on this replica and on those that wait for it."""
        if self._worker is not None:
            self._worker.abort()
        super().abort(errored)

    def shutdown(self) -> None:
        self._end()
        self._exact.shutdown()
        super().shutdown()

    def errored(self) -> Exception | None:
        """The first failure of an allreduce since `configure`, or the wrapped group's."""
        own = None if self._worker is None else self._worker.failure
        return own or self._exact.errored()

    def set_timeout(self, timeout: timedelta) -> None:
        super().set_timeout(timeout)
        self._exact.set_timeout(timeout)
        if self._worker is not None:
            self._worker.comm.timeout_ms = self._timeout_ms()

    def getBackendName(self) -> str:
        return "torchft-gqsgd"

    def __repr__(self) -> str:
        return f"gqsgd.torchft.ProcessGroup({self._policy!r}, exact={self._exact!r})"

    def _reported(self, work: Work) -> Work:
        return work if self._worker is None else ExactWork(work, self._worker.report)

    def _timeout_ms(self) -> int:
        return max(1, round(self._timeout.total_seconds() * 1000))

    def _end(self) -> None:
        """The end of a quorum, of which the next one knows the counter and the costs."""
        worker, self._worker = self._worker, None
        if worker is not None:
            self._next = worker.end()

    def _reduced(self, tensors: list[torch.Tensor], opts: object) -> Work | None:
        """The work of a compressed allreduce; None where the wrapped group is to do it."""
        reduce_op = getattr(opts, "reduceOp", opts)
        op = ops.find(reduce_op)
        quantizers = [self._quantizer_of(tensor) for tensor in tensors]
        chosen = [quantizer for quantizer in quantizers if quantizer is not None]
        if not chosen:
            return None
        if op is None:
            return self._exactly(f"op {reduce_op} is neither SUM nor AVG")
        if len({quantizer.spec for quantizer in chosen}) > 1 or len(chosen) < len(quantizers):
            return self._exactly("a list has tensors that the policy gives different quantizers")
        if len({tensor.dtype for tensor in tensors}) > 1:
            return self._exactly("a list has tensors of different dtypes")
        if self._worker is None:
            raise RuntimeError("process group not initialized: configure() has not succeeded")
        return self._worker.allreduce(tensors, chosen[0], op)

    def _quantizer_of(self, tensor: torch.Tensor) -> gqsgd.Quantizer | None:
        if tensor.dtype not in DTYPES:
            return None  # integers and flags control the training
        chosen = self._policy(tensor)
        if chosen is None:
            return None
        if tensor.device.type != "cpu" or tensor.layout != torch.strided:
            return self._exactly(f"tensors are on {tensor.device.type}, {tensor.layout}")
        return gqsgd.Quantizer(chosen) if isinstance(chosen, str) else chosen

    def _exactly(self, reason: str) -> None:
        """One line for each reason: a tensor that the policy names is not compressed."""
        if reason not in self._named:
            self._named.add(reason)
            _LOGGER.warning("an allreduce that the policy names is exact: %s", reason)
