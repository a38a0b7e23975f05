"""An allreduce of one array, at once or as a request, and the error that it has."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, TypeVar, overload

from numpy.typing import NDArray

from .. import _abi
from ..arguments import config, number_of
from ..arrays import read_view
from ..memory import View, memory_of
from ..quantizer import Quantizer, handle_of
from .call_config import call_config
from .request import Request

if TYPE_CHECKING:
    from ..communicator import Communicator

_Values = TypeVar("_Values", bound=NDArray[Any])


class ArrayCollectives:
    """The part of Communicator that works on one array."""

    __slots__ = ()

    @overload
    def allreduce(
        self: Communicator,
        x: _Values,
        q: Quantizer,
        op: str = ...,
        schedule: str = ...,
        out: _Values | None = ...,
        step: Any = ...,
        index: int = ...,
        stream: Any = ...,
    ) -> _Values: ...

    @overload
    def allreduce(
        self: Communicator,
        x: Any,
        q: Quantizer,
        op: str = ...,
        schedule: str = ...,
        out: Any = ...,
        step: Any = ...,
        index: int = ...,
        stream: Any = ...,
    ) -> Any: ...

    def allreduce(
        self: Communicator,
        x: Any,
        q: Quantizer,
        op: str = "mean",
        schedule: str = "auto",
        out: Any = None,
        step: Any = None,
        index: int = 0,
        stream: Any = None,
    ) -> Any:
        """Averages or adds `x` over all ranks; every rank gets the same bits.

        For several tensors use `allreduce_many([a, b], q)` rather than one flat array, in which
        norms, blocks and rotations go across their borders: tensors of small values take the error
        of large ones beside them (docs/PRESETS.md has numbers).

        x: contiguous float32, float16, bfloat16 or float64 of any shape: a NumPy array, anything
            NumPy can view without a copy, a CPU tensor, or an array of this rank's GPU, of torch
            or CuPy, where the transport takes them. Same size and dtype on every rank.
        op: "mean" or "sum". schedule: "auto", "ring", "tree", "butterfly", "direct",
            "hierarchical", "native" (exact sums by the transport's own allreduce: over MPI, or
            a transport that has one) or "sparse".
        out: where the result goes, of the shape and dtype of `x`: `x` itself (in place), or memory
            that does not overlap it. Returned if given; otherwise a new tensor for a tensor, a new
            array for everything else. Torch's autograd does not see the call
            (gqsgd.torch.allreduce is for that).
        step, index: random key of this call, with seed and stream_id; equal on all ranks, below
            2^32 and 2^16. Two calls of one step need two indexes, else they draw the same numbers.
            Without a step the communicator's counter is used, and index 0. On a GPU
            the step may be an array there, of one int64 or uint64, step + index * 2**32, or of two
            uint32, step and index: read when the stream gets to the call, and the call's until
            then; by a CUDA graph at each replay. Give no index then.
        stream: on a GPU, where the call is enqueued: a number, torch.cuda.Stream, CuPy's, or what
            has __cuda_stream__; None is the current one of the package that `x` is of.

        Every rank calls in the same order with the same arguments. Host memory: blocks until the
        result is there, other threads run meanwhile; Ctrl-C is seen when the call returns, `abort`
        from another thread ends it at once. On a GPU it returns before it is executed, and `x`
        and the result belong to the stream until then (docs/NCCL.md).

        Raises GqsgdError, whose subclass has the state that is left; TypeError for what is no
        array. An argument refused on this rank raises RemoteError on the others, so that no rank
        waits.
        """
        _, recv, arguments = _prepared(self, x, q, op, schedule, out, step, index, stream)
        self._call("gqsgd_allreduce", *arguments)
        return recv.owner

    def allreduce_start(
        self: Communicator,
        x: Any,
        q: Quantizer,
        op: str = "mean",
        schedule: str = "auto",
        out: Any = None,
        step: Any = None,
        index: int = 0,
        stream: Any = None,
    ) -> Request:
        """Starts `allreduce`, with its arguments, and returns; `wait` of the request is the result.

        Requests run in the order of their start, the same on every rank: by a thread of the
        library, over MPI and custom transports only inside `test`, `wait` and blocking calls, or on
        a stream. Blocking calls run after them. Until it has ended `x` may not be
        written and the result not be looked at; the arrays are kept alive. Errors of arguments are
        raised here or by `wait`, all others by `wait`.
        """
        send, recv, arguments = _prepared(self, x, q, op, schedule, out, step, index, stream)
        return self._start("gqsgd_allreduce_start", arguments, (send, recv, arguments), recv.owner)

    def measured_error(
        self: Communicator,
        x: Any,
        q: Quantizer,
        schedule: str = "auto",
        step: int | None = None,
        index: int = 0,
    ) -> float:
        """||G - mean||^2 / ||mean||^2 of an allreduce of `x` with op="mean", measured here and now
        against an uncompressed one; the same number on every rank.

        A collective of two allreduces. Without a step it uses that of the next call and leaves the
        counter alone: the error is that of the next allreduce of `x`. Arguments and errors as in
        allreduce.
        """
        error = ctypes.c_double()
        try:
            settings = config(schedule, step, index)
            quantizer, send = handle_of(q), read_view(x, "x")
        except Exception as refused:
            self._refuse(refused, 0)  # no step of the counter is used
            raise
        values = send.address, send.count, send.dtype_number
        self._call("gqsgd_measured_error", quantizer, *values, settings, ctypes.byref(error))
        return error.value


def _prepared(
    comm: Communicator,
    x: Any,
    q: Quantizer,
    op: str,
    schedule: str,
    out: Any,
    step: Any,
    index: int,
    stream: Any,
) -> tuple[View, View, tuple[Any, ...]]:
    """What an allreduce reads, what it writes, and its arguments in C. What is refused here is
    refused on all ranks."""
    try:
        number, quantizer = number_of("op", op, _abi.OPS), handle_of(q)
        memory = memory_of(x, stream)
        settings = call_config(schedule, step, index, memory.stream, x)
        send = memory.values(x, "x")
        recv = memory.result(out, send)
    except Exception as error:
        comm._refuse(error, step, x, stream)
        raise
    values = send.address, recv.address, send.count, send.dtype_number
    return send, recv, (quantizer, *values, number, settings, memory.stream)
