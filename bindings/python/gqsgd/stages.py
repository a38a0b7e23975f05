"""The stages of an allreduce, one call each: norm, quantize, reduce, reduce_many, dequantize.

For studies, tests and other people's transports. The random words of a stage depend on its site,
the quantizer's seed and nothing else. A packed array does not say how many values it holds: where
a count can be left out, every lane of the words is taken for a value.

Arrays of a CUDA device (tensors of torch, CuPy's, whatever has __cuda_array_interface__; DLPack to
read from) are worked on there, all arrays of a call: enqueued on `stream`, by default the current
one of their package, and results are arrays of the same package.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from . import _abi, device_stages
from .arguments import integer, number_of
from .arrays import read_view, require_contiguous, require_writable
from .device_arrays import device_view, is_on_device
from .errors import InvalidArgument, check
from .quantizer import Quantizer, handle_of

Words = NDArray[np.uint32]
Norms = NDArray[np.float32]


@dataclass(frozen=True, init=False)
class Site:
    """Where a stage stands in an allreduce. Immutable; give every field by name.

    rank, size: the rank that runs the stage, and the ranks in the allreduce.
    combines: longest chain of reductions in code form: size - 1 for a ring, ceil(log2 size) for
        tree and butterfly, 0 for the direct schedule.
    step, index: place in the random numbers; below 2^32 and 2^16.
    first_value: position of the first value in the whole call, a multiple of 32, of `block` and,
        with rotate="hadamard", of 1024; a part that is not the call's last ends at one, too.
    hop: number of this reduction in the schedule, from 1; 0 when quantizing.
    weight_a, weight_b: ranks merged in the operands a and b (combine="average").
    """

    rank: int
    size: int
    combines: int
    step: int
    index: int
    first_value: int
    hop: int
    weight_a: int
    weight_b: int

    def __init__(
        self,
        *,
        rank: int = 0,
        size: int = 1,
        combines: int = 0,
        step: int = 0,
        index: int = 0,
        first_value: int = 0,
        hop: int = 0,
        weight_a: int = 1,
        weight_b: int = 1,
    ):
        given = locals()
        for field in fields(self):
            number = integer(field.name, given[field.name], ctypes.c_uint64)
            object.__setattr__(self, field.name, number)

    def _pointer(self) -> Any:
        return ctypes.pointer(_abi.SiteStruct(**vars(self)))


def norm(x: Any, q: Quantizer, *, site: Site, stream: Any = None) -> Norms:
    """Norms of this rank's values `x` (contiguous, any shape): `q.norm_count(x.size)` float32
    numbers, NaN or infinity where an input is. With p = inf the largest over ranks is the global
    norm; take it by np.maximum, which keeps NaN. Norms of blocks lie on a grid of 16 bits."""
    if _on_device(x, stream):
        return device_stages.norm(x, q, site, stream)
    values = read_view(x, "x")
    norms = np.empty(q.norm_count(values.count), np.float32)
    workspace = _workspace(q, values.count, values.dtype_number)
    check(
        _abi.library().gqsgd_norm(
            handle_of(q),
            site._pointer(),
            values.address,
            values.count,
            values.dtype_number,
            norms.ctypes.data,
            workspace.ctypes.data,
            workspace.size,
            None,
        )
    )
    return norms


def quantize(x: Any, q: Quantizer, norms: Norms, *, site: Site, stream: Any = None) -> Words:
    """Rounds `x` (contiguous, any shape) at random to codes: `q.packed_size(x.size) / 4` words.
    norms: the global norms."""
    if _on_device(x, stream):
        return device_stages.quantize(x, q, norms, site, stream)
    values = read_view(x, "x")
    _require("norms", norms, np.float32, q.norm_count(values.count))
    words = np.empty(_word_count(q, values.count), np.uint32)
    workspace = _workspace(q, values.count, values.dtype_number)
    check(
        _abi.library().gqsgd_quantize(
            handle_of(q),
            site._pointer(),
            values.address,
            values.count,
            values.dtype_number,
            norms.ctypes.data,
            words.ctypes.data,
            workspace.ctypes.data,
            workspace.size,
            None,
        )
    )
    return words


def reduce(
    a: Words,
    b: Words,
    q: Quantizer,
    *,
    site: Site,
    count: int | None = None,
    out: Words | None = None,
    stream: Any = None,
) -> Words:
    """Adds the codes of `a` and `b` in code form, or averages them with combine="average".

    a: what came from the peer; b: this rank's own; equally many words.
    count: values in each, by default one for every lane.
    out: where the result goes; `out=b` is in place, None makes a new array. On a device `out=b`.
    """
    if _on_device(b, stream):
        count = _device_lanes(q, b) if count is None else count
        return device_stages.reduce(a, b, q, site, count, out, stream)
    count = _lanes(q, b) if count is None else count
    size = _word_count(q, count)
    _require("a", a, np.uint32, size)
    _require("b", b, np.uint32, size)
    if out is None:
        out = b.copy()
    else:
        _require("out", out, np.uint32, size)
        require_writable(out, "out")
        if out is not b:
            np.copyto(out, b)
    check(
        _abi.library().gqsgd_reduce(
            handle_of(q), site._pointer(), a.ctypes.data, out.ctypes.data, count, None
        )
    )
    return out


def reduce_many(
    words: Sequence[Words],
    q: Quantizer,
    norms: Norms,
    *,
    site: Site,
    count: int | None = None,
    stream: Any = None,
) -> tuple[Words, Norms]:
    """The owner's step of the direct schedule: decodes the words of all ranks, adds them wide in
    rank order and encodes once, with bits_down bits. Returns (words, scales).

    words: `site.size` arrays in rank order; norms: the global norms. One scale per norm.
    count: values in each, by default one for every lane; give it where the last word is not full.
    """
    if not words or len(words) != site.size:
        raise InvalidArgument(f"words has {len(words)} arrays, site.size is {site.size}")
    if _on_device(words[0], stream):
        count = _device_lanes(q, words[0]) if count is None else count
        return device_stages.reduce_many(words, q, norms, site, count, stream)
    count = _lanes(q, words[0]) if count is None else count
    size = _word_count(q, count)
    for rank, operand in enumerate(words):
        _require(f"words[{rank}]", operand, np.uint32, size)
    _require("norms", norms, np.float32, q.norm_count(count))
    result = np.empty(_result_word_count(q, count), np.uint32)
    scales = np.empty(norms.size, np.float32)
    workspace = _workspace(q, count, _abi.DTYPES["float32"])
    check(
        _abi.library().gqsgd_reduce_many(
            handle_of(q),
            site._pointer(),
            (ctypes.c_void_p * len(words))(*[operand.ctypes.data for operand in words]),
            count,
            norms.ctypes.data,
            result.ctypes.data,
            scales.ctypes.data,
            workspace.ctypes.data,
            workspace.size,
            None,
        )
    )
    return result, scales


def dequantize(
    words: Words,
    q: Quantizer,
    scales: Norms,
    count: int,
    *,
    site: Site,
    op: str = "mean",
    dtype: DTypeLike = np.float32,
    out: Any = None,
    stream: Any = None,
) -> Any:
    """Turns the codes of `site.size` ranks back into `count` values.

    words: what reduce_many returned where site.combines is 0, or codes reduced in code form.
    scales: what reduce_many returned, or the global norms after reductions in code form.
    op: "mean" or "sum" over `site.size` ranks.
    out: `count` values to write, of any dtype; None makes a new array of `dtype`.
    """
    if _on_device(words, stream):
        name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
        return device_stages.dequantize(words, q, scales, count, site, op, name, out, stream)
    word_count = _word_count if site.combines else _result_word_count
    _require("words", words, np.uint32, word_count(q, count))
    _require("scales", scales, np.float32, q.norm_count(count))
    values = read_view(np.empty(count, dtype) if out is None else out, "out")
    require_writable(values.view, "out")
    if values.count != count:
        raise InvalidArgument(f"out holds {values.count} values, count is {count}")
    check(
        _abi.library().gqsgd_dequantize(
            handle_of(q),
            site._pointer(),
            words.ctypes.data,
            scales.ctypes.data,
            count,
            values.dtype_number,
            number_of("op", op, _abi.OPS),
            values.address,
            None,
        )
    )
    return values.owner


def _on_device(x: Any, stream: Any) -> bool:
    if is_on_device(x):
        return True
    if stream is not None:
        raise InvalidArgument(
            f"stream is {stream!r} and the array is a {type(x).__name__} in host memory, which "
            "takes none"
        )
    return False


def _require(role: str, array: Any, dtype: DTypeLike, size: int) -> None:
    """The library sees only an address: types and lengths can be checked nowhere else."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        found = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise InvalidArgument(f"{role} is {found}; an array of {np.dtype(dtype)} is needed")
    if array.size != size:
        raise InvalidArgument(f"{role} has {array.size} elements, {size} are needed")
    require_contiguous(array, role)


def _workspace(q: Quantizer, value_count: int, dtype: int) -> NDArray[np.uint8]:
    """Scratch memory for one stage call."""
    size_bytes = ctypes.c_size_t()
    check(
        _abi.library().gqsgd_workspace_size(
            handle_of(q), value_count, dtype, ctypes.byref(size_bytes)
        )
    )
    return np.empty(size_bytes.value, np.uint8)


def _word_count(q: Quantizer, value_count: int) -> int:
    return q.packed_size(value_count) // np.dtype(np.uint32).itemsize


def _result_word_count(q: Quantizer, value_count: int) -> int:
    return q.result_size(value_count) // np.dtype(np.uint32).itemsize


def _lanes(q: Quantizer, words: Words) -> int:
    """How many values the words have room for; 1024 values fill whole words in every format."""
    return 1024 * words.itemsize * words.size // q.packed_size(1024)


def _device_lanes(q: Quantizer, words: Any) -> int:
    return 1024 * 4 * device_view(words, "words").count // q.packed_size(1024)
