"""The stages on arrays of a device: enqueued on a stream, never waited for.

stages.py hands over what it is given on a device. Results and workspace come from the package of
the first array, whose allocator has to know of the stream: use its current one, or keep what a
call was given until the stream is done with it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from . import _abi
from .arguments import number_of
from .device_arrays import device_view, empty, require, stream_number
from .errors import InvalidArgument, check
from .quantizer import Quantizer, handle_of

_VALUES = tuple(_abi.DTYPES)
_WORDS = ("uint32", "int32")


def _values(x: Any, role: str, stream: int) -> Any:
    view = device_view(x, role, stream)
    return require(x, role, _VALUES, view.count, stream)


def _workspace(like: Any, q: Quantizer, count: int, dtype: int, stream: int) -> tuple[Any, int]:
    size_bytes = ctypes.c_size_t()
    check(
        _abi.library().gqsgd_workspace_size(handle_of(q), count, dtype, ctypes.byref(size_bytes))
    )
    memory = empty(like, size_bytes.value, "uint8")
    return require(memory, "workspace", ("uint8",), size_bytes.value, stream), size_bytes.value


def norm(x: Any, q: Quantizer, site: Any, stream: Any) -> Any:
    number = stream_number(stream, x)
    values = _values(x, "x", number)
    norms = empty(x, q.norm_count(values.count), "float32")
    out = require(norms, "norms", ("float32",), q.norm_count(values.count), number, write=True)
    workspace, size_bytes = _workspace(x, q, values.count, values.dtype_number, number)
    check(
        _abi.library().gqsgd_norm(
            handle_of(q),
            site._pointer(),
            values.address,
            values.count,
            values.dtype_number,
            out.address,
            workspace.address,
            size_bytes,
            number,
        )
    )
    return norms


def quantize(x: Any, q: Quantizer, norms: Any, site: Any, stream: Any) -> Any:
    number = stream_number(stream, x)
    values = _values(x, "x", number)
    scale = require(norms, "norms", ("float32",), q.norm_count(values.count), number)
    words = empty(x, q.packed_size(values.count) // 4, "uint32")
    out = require(words, "words", _WORDS, q.packed_size(values.count) // 4, number, write=True)
    check(
        _abi.library().gqsgd_quantize(
            handle_of(q),
            site._pointer(),
            values.address,
            values.count,
            values.dtype_number,
            scale.address,
            out.address,
            None,
            0,
            number,
        )
    )
    return words


def reduce(a: Any, b: Any, q: Quantizer, site: Any, count: int, out: Any, stream: Any) -> Any:
    if out is not b:
        raise InvalidArgument("on a device reduce works in place; hint: out=b")
    number = stream_number(stream, b)
    size = q.packed_size(count) // 4
    source = require(a, "a", _WORDS, size, number)
    target = require(b, "b", _WORDS, size, number, write=True)
    check(
        _abi.library().gqsgd_reduce(
            handle_of(q), site._pointer(), source.address, target.address, count, number
        )
    )
    return out


def reduce_many(
    words: Sequence[Any], q: Quantizer, norms: Any, site: Any, count: int, stream: Any
) -> tuple[Any, Any]:
    number = stream_number(stream, words[0])
    operands = [
        require(operand, f"words[{rank}]", _WORDS, q.packed_size(count) // 4, number)
        for rank, operand in enumerate(words)
    ]
    norm_count = q.norm_count(count)
    scale = require(norms, "norms", ("float32",), norm_count, number)
    result = empty(words[0], q.result_size(count) // 4, "uint32")
    scales = empty(words[0], norm_count, "float32")
    out = require(result, "words", _WORDS, q.result_size(count) // 4, number, write=True)
    out_scales = require(scales, "scales", ("float32",), norm_count, number, write=True)
    workspace, size_bytes = _workspace(words[0], q, count, _abi.DTYPES["float32"], number)
    check(
        _abi.library().gqsgd_reduce_many(
            handle_of(q),
            site._pointer(),
            (ctypes.c_void_p * len(words))(*[operand.address for operand in operands]),
            count,
            scale.address,
            out.address,
            out_scales.address,
            workspace.address,
            size_bytes,
            number,
        )
    )
    return result, scales


def dequantize(
    words: Any,
    q: Quantizer,
    scales: Any,
    count: int,
    site: Any,
    op: str,
    dtype: str,
    out: Any,
    stream: Any,
) -> Any:
    number = stream_number(stream, words)
    size = (q.packed_size if site.combines else q.result_size)(count) // 4
    codes = require(words, "words", _WORDS, size, number)
    scale = require(scales, "scales", ("float32",), q.norm_count(count), number)
    out = empty(words, count, dtype) if out is None else out
    values = require(out, "out", _VALUES, count, number, write=True)
    check(
        _abi.library().gqsgd_dequantize(
            handle_of(q),
            site._pointer(),
            codes.address,
            scale.address,
            count,
            values.dtype_number,
            number_of("op", op, _abi.OPS),
            values.address,
            number,
        )
    )
    return out
