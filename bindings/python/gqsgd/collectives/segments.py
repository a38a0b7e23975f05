"""Collectives on several buffers: tensors in one allreduce, slices of ranks."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .. import _abi
from ..arguments import integer, number_of
from ..errors import InvalidArgument
from ..memory import memory_of
from ..quantizer import Quantizer, handle_of
from .array_list import ArrayList
from .call_config import call_config
from .request import Request

if TYPE_CHECKING:
    from ..communicator import Communicator

_Sizes = Any  # an array of c_size_t
_Prepared = tuple[Any, tuple[Any, ...], tuple[Any, ...]]  # result, arguments in C, kept alive


class SegmentCollectives:
    """The part of Communicator that works on more than one buffer or on parts of one.

    Each method has a form with `_start`, which returns a Request at once; its `wait` gives the
    result. step, index, stream and errors are as for `allreduce`.
    """

    __slots__ = ()

    def allreduce_many(
        self: Communicator,
        arrays: Iterable[Any],
        q: Quantizer,
        op: str = "mean",
        schedule: str = "auto",
        out: Sequence[Any] | None = None,
        step: Any = None,
        index: int = 0,
        stream: Any = None,
    ) -> list[Any]:
        """Averages or adds a list of arrays of one dtype over all ranks as one operation, without a
        flat copy; each array has norms of its own.

        arrays, out: as x and out of allreduce; the same sizes on every rank; an array may be its
            own result. schedule: as for allreduce, but not "sparse".
        """
        given = arrays, q, op, schedule, out, step, index, stream
        return _run(self, "gqsgd_allreduce_many", _prepared(self, _many, step, *given))

    def allreduce_many_start(
        self: Communicator,
        arrays: Iterable[Any],
        q: Quantizer,
        op: str = "mean",
        schedule: str = "auto",
        out: Sequence[Any] | None = None,
        step: Any = None,
        index: int = 0,
        stream: Any = None,
    ) -> Request:
        """Starts `allreduce_many`."""
        given = arrays, q, op, schedule, out, step, index, stream
        return _start(
            self, "gqsgd_allreduce_many_start", _prepared(self, _many, step, *given)
        )

    def reduce_scatter(
        self: Communicator,
        x: Any,
        q: Quantizer,
        counts: Sequence[int] | None = None,
        op: str = "mean",
        out: Any = None,
        step: Any = None,
        index: int = 0,
        stream: Any = None,
    ) -> Any:
        """Averages or adds `x` over all ranks and returns this rank's slice of it.

        x: contiguous values of any shape, the slices of all ranks in rank order.
        counts: values of each rank's slice, in rank order, equal on all ranks; by default as equal
            as can be, the first ones longer (numpy.array_split).
        out: where the slice goes; a view of its place in `x` is in place. By default a new array of
            one dimension.

        Values are rounded once: bits_down, rescale and rounding_down have no effect.
        """
        prepared = _prepared(self, _scatter, step, x, q, counts, op, out, step, index, stream)
        return _run(self, "gqsgd_reduce_scatter", prepared)

    def reduce_scatter_start(
        self: Communicator,
        x: Any,
        q: Quantizer,
        counts: Sequence[int] | None = None,
        op: str = "mean",
        out: Any = None,
        step: Any = None,
        index: int = 0,
        stream: Any = None,
    ) -> Request:
        """Starts `reduce_scatter`."""
        prepared = _prepared(self, _scatter, step, x, q, counts, op, out, step, index, stream)
        return _start(self, "gqsgd_reduce_scatter_start", prepared)

    def allgather(
        self: Communicator,
        x: Any,
        q: Quantizer,
        counts: Sequence[int] | None = None,
        out: Any = None,
        step: Any = None,
        index: int = 0,
        stream: Any = None,
    ) -> Any:
        """The slices of all ranks, one after the other; every rank gets the same bits.

        x: this rank's slice, contiguous values of any shape.
        counts: values of each rank's slice, equal on all ranks; by default all are as long as this
            one.
        out: where all slices go; then `x` may be a view of its own place in it. By default a new
            array of one dimension.
        """
        prepared = _prepared(self, _gather, step, x, q, counts, out, step, index, stream)
        return _run(self, "gqsgd_allgather", prepared)

    def allgather_start(
        self: Communicator,
        x: Any,
        q: Quantizer,
        counts: Sequence[int] | None = None,
        out: Any = None,
        step: Any = None,
        index: int = 0,
        stream: Any = None,
    ) -> Request:
        """Starts `allgather`."""
        prepared = _prepared(self, _gather, step, x, q, counts, out, step, index, stream)
        return _start(self, "gqsgd_allgather_start", prepared)


def _prepared(comm: Communicator, prepare: Any, step: Any, *given: Any) -> _Prepared:
    """What one of the functions below makes of the arguments, or its refusal, which all ranks
    get."""
    try:
        prepared: _Prepared = prepare(comm, *given)
        return prepared
    except Exception as error:
        comm._refuse(error, step, given[0], given[-1])
        raise


def _run(comm: Communicator, function: str, prepared: _Prepared) -> Any:
    result, arguments, _ = prepared
    comm._call(function, *arguments)
    return result


def _start(comm: Communicator, function: str, prepared: _Prepared) -> Request:
    result, arguments, kept = prepared
    return comm._start(function, arguments, kept, result)


def _many(
    comm: Communicator,
    arrays: Iterable[Any],
    q: Quantizer,
    op: str,
    schedule: str,
    out: Sequence[Any] | None,
    step: Any,
    index: int,
    stream: Any,
) -> _Prepared:
    number = number_of("op", op, _abi.OPS)
    send = arrays if isinstance(arrays, ArrayList) else ArrayList(arrays, stream)
    recv, addresses, enqueued_on = send.results(out), send.addresses(), send.stream_number(stream)
    settings = call_config(schedule, step, index, enqueued_on, send[0] if len(send) else None)
    arguments = (
        handle_of(q),
        addresses,
        addresses if recv is send else recv.addresses(),
        send.counts(),
        len(send),
        send.dtype_number(),
        number,
        settings,
        enqueued_on,
    )
    return recv.result(), arguments, (send, recv, settings)


def _scatter(
    comm: Communicator,
    x: Any,
    q: Quantizer,
    counts: Sequence[int] | None,
    op: str,
    out: Any,
    step: Any,
    index: int,
    stream: Any,
) -> _Prepared:
    number, quantizer = number_of("op", op, _abi.OPS), handle_of(q)
    memory = memory_of(x, stream)
    settings = call_config("auto", step, index, memory.stream, x)
    send = memory.values(x, "x")
    if counts is None:
        base, longer = divmod(send.count, comm.size)
        counts = [base + (rank < longer) for rank in range(comm.size)]
    sizes = _slice_sizes(comm, counts)
    if sum(sizes) != send.count:
        raise InvalidArgument(f"counts add up to {sum(sizes)}, x has {send.count} values")
    recv = memory.slice(out, send, sizes[comm.rank])
    pointers = quantizer, send.address, recv.address, sizes, send.dtype_number
    return recv.owner, (*pointers, number, settings, memory.stream), (send, recv, settings)


def _gather(
    comm: Communicator,
    x: Any,
    q: Quantizer,
    counts: Sequence[int] | None,
    out: Any,
    step: Any,
    index: int,
    stream: Any,
) -> _Prepared:
    memory, quantizer = memory_of(x, stream), handle_of(q)
    settings = call_config("auto", step, index, memory.stream, x)
    send = memory.values(x, "x")
    sizes = _slice_sizes(comm, [send.count] * comm.size if counts is None else counts)
    if sizes[comm.rank] != send.count:
        raise InvalidArgument(
            f"counts[{comm.rank}] is {sizes[comm.rank]}, x of this rank has {send.count} values"
        )
    recv = memory.slice(out, send, sum(sizes))
    pointers = quantizer, send.address, recv.address, sizes, send.dtype_number
    return recv.owner, (*pointers, settings, memory.stream), (send, recv, settings)


def _sizes(counts: Sequence[int]) -> _Sizes:
    return (ctypes.c_size_t * len(counts))(*counts)


def _slice_sizes(comm: Communicator, counts: Sequence[int]) -> _Sizes:
    if not hasattr(counts, "__len__"):
        raise TypeError(f"counts is {counts!r}; a list of an integer for each rank is needed")
    if len(counts) != comm.size:
        raise InvalidArgument(f"counts has {len(counts)} numbers for {comm.size} ranks")
    return _sizes([integer("counts", count, ctypes.c_size_t) for count in counts])
