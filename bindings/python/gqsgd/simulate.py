"""Whole allreduces with virtual ranks on the calling thread, by the same executor: their result,
the error to expect of them, and whether ranks get the same bits."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from . import _abi, errors
from .arguments import config, integer, joined_fields, number_of
from .arrays import Buffer, read_view
from .quantizer import Quantizer, handle_of

_Values = TypeVar("_Values", bound=NDArray[Any])


@overload
def simulate(
    arrays: Sequence[_Values],
    q: Quantizer,
    op: str = ...,
    schedule: str = ...,
    step: int = ...,
    index: int = ...,
    check: bool = ...,
    **options: Any,
) -> _Values: ...


@overload
def simulate(
    arrays: Sequence[Any],
    q: Quantizer,
    op: str = ...,
    schedule: str = ...,
    step: int = ...,
    index: int = ...,
    check: bool = ...,
    **options: Any,
) -> Any: ...


def simulate(
    arrays: Sequence[Any],
    q: Quantizer,
    op: str = "mean",
    schedule: str = "auto",
    step: int = 0,
    index: int = 0,
    check: bool = False,
    **options: Any,
) -> Any:
    """The result every rank gets when rank i gives `arrays[i]`, bit for bit that of real ranks.

    arrays: one per rank, all of one shape and dtype, as for Communicator.allreduce.
    op, schedule, step, index: as there, but a step is always used. Options are those of
    Communicator (timeout_ms, stream_id, chunk_value_count, threads, costs,
    uncompressed, nodes).
    check: also takes every other rank's result, and raises Internal where one differs.

    Returns a new array (a tensor for tensors). Raises GqsgdError; nothing is left behind.
    """
    send = _operands(arrays)
    recv = [buffer.empty_like() for buffer in (send if check else send[:1])]
    errors.check(
        _abi.library().gqsgd_simulate(
            handle_of(q),
            len(send),
            _addresses(send, len(send)),
            _addresses(recv, len(send)),
            send[0].count,
            send[0].dtype_number,
            number_of("op", op, _abi.OPS),
            config(schedule, step, index),
            joined_fields("", options),
        )
    )
    _require_equal(recv)
    return recv[0].owner


def expected_error(
    q: Quantizer,
    arrays: Sequence[Any],
    schedule: str = "auto",
    draws: int = 16,
    step: int = 0,
    index: int = 0,
    **options: Any,
) -> float:
    """The normalised mean square error to expect of an allreduce of `arrays` with op="mean":
    the mean of ||G - mean||^2 / ||mean||^2 over `draws` draws of the random numbers (steps `step`,
    step + 1, ..), each a whole allreduce with virtual ranks.

    arrays: one per rank, as for simulate. 0 where there is no error, infinite without a signal.
    Options are those of Communicator: `nodes=[0, 0, 1, 1]` is which ranks share a node, without
    which schedule="hierarchical" is "direct"; with `costs` schedule="auto" chooses.
    """
    send = _operands(arrays)
    error = ctypes.c_double()
    errors.check(
        _abi.library().gqsgd_expected_error(
            handle_of(q),
            len(send),
            _addresses(send, len(send)),
            send[0].count,
            send[0].dtype_number,
            config(schedule, step, index),
            integer("draws", draws, ctypes.c_int32),
            joined_fields("", options),
            ctypes.byref(error),
        )
    )
    return error.value


def _operands(arrays: Sequence[Any]) -> list[Buffer]:
    """One buffer per rank, all of one shape and dtype."""
    send = [read_view(x, f"arrays[{rank}]") for rank, x in enumerate(arrays)]
    if not send:
        raise errors.InvalidArgument("arrays is empty; give one array per rank")
    for rank, buffer in enumerate(send):
        if (buffer.dtype, buffer.view.shape) != (send[0].dtype, send[0].view.shape):
            raise errors.InvalidArgument(
                f"arrays[{rank}] is {buffer.dtype} of shape {buffer.view.shape}, arrays[0] is "
                f"{send[0].dtype} of shape {send[0].view.shape}; one call has one of each"
            )
    return send


def _addresses(buffers: list[Buffer], rank_count: int) -> ctypes.Array[ctypes.c_void_p]:
    """One address per rank; NULL for the ranks whose result was not requested."""
    return (ctypes.c_void_p * rank_count)(*[buffer.address for buffer in buffers])


def _require_equal(results: list[Buffer]) -> None:
    """Bits, not values: NaN equals NaN, and -0.0 is not +0.0."""
    bits = [np.atleast_1d(result.view).view(np.uint8) for result in results]
    for rank, other in enumerate(bits):
        if not np.array_equal(bits[0], other):
            raise errors.Internal(
                f"simulate: the results of rank 0 and rank {rank} differ; please report it with "
                "the quantizer, the schedule and the shapes"
            )


class Verified(NamedTuple):
    """What `Communicator.verify` returns where all ranks have the right bits."""

    compared: int
    """Calls whose results were compared, on each rank."""


class VerifiedGroups:
    """How the ranks of a communicator compare their bits."""

    __slots__ = ()

    @property
    def size(self) -> int:
        raise NotImplementedError

    def _call(self, function: str, *arguments: Any) -> None:
        raise NotImplementedError

    def verify(self, flipped_rank: int = -1) -> Verified:
        """Makes every call that presets, schedules and types of values allow (some 240, in about
        a second), and compares the results with those of virtual ranks and with digests of the
        reference, which are part of the library. Every rank calls with the same arguments; the
        counter stays as it is.

        flipped_rank: a rank, one bit of whose first results is changed before it compares them, so
            that tests see that this is found.

        Raises Integrity on all ranks where a result differs: its sentence names the ranks, the
        first such call and both digests, its `differing` has how many results of each rank. The
        communicator stays usable then. Unsupported over NCCL, which has no host memory; and what
        the calls raise.
        """
        compared, differing = ctypes.c_int32(), (ctypes.c_int32 * self.size)()
        flipped = integer("flipped_rank", flipped_rank, ctypes.c_int32)
        try:
            self._call("gqsgd_comm_verify", flipped, ctypes.byref(compared), differing)
        except errors.Integrity as error:
            error.differing = {rank: count for rank, count in enumerate(differing) if count > 0}
            raise
        return Verified(compared.value)
