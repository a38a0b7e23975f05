"""The stages of an allreduce, one call each: norm, quantize, reduce, reduce_many, dequantize.

For studies, tests and other people's transports. The random words of a stage depend on its site,
the quantizer's seed and nothing else. A packed array does not hold its number of values: where
a count can be left out, every lane of the words is taken for a value.

With width="adaptive" and levels="rice" a stage works on a whole call, which has values of each
group of codes: first_value is 0. An owner of the direct schedule adds Rice codes by reduce_rice, of
its groups alone (rice_groups).

Arrays of a CUDA device (tensors of torch, CuPy's, whatever has __cuda_array_interface__; DLPack to
read from) are worked on there, all arrays of a call: enqueued on `stream`, by default the current
one of their package, and results are arrays of the same package.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from . import _abi
from .arguments import integer, number_of
from .errors import InvalidArgument, check
from .memory import Memory, View, memory_of
from .quantizer import Quantizer, handle_of

Words = NDArray[np.uint32]
Norms = NDArray[np.float32]


@dataclass(frozen=True, init=False)
class Site:
    """Where a stage stands in an allreduce. Immutable; give every field by name.

    rank, size: the rank that runs the stage, and the ranks in the allreduce.
    reduction_depth: longest chain of reductions in code form: size - 1 for a ring, ceil(log2 size)
        for tree and butterfly, 0 for the direct schedule.
    step, index: the random key of the call, with seed; below 2^32 and 2^16.
    first_value: position of the first value in the whole call, a multiple of 32, of `block` and,
        with rotate="hadamard", of 1024; a part that is not the call's last ends at one, too.
    hop: number of this reduction in the schedule, from 1; 0 when quantizing.
    weight_a, weight_b: ranks merged in the operands a and b (combine="average").
    """

    rank: int
    size: int
    reduction_depth: int
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
        reduction_depth: int = 0,
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
    memory = memory_of(x, stream)
    values = memory.values(x, "x")
    norms = memory.new(x, q.norm_count(values.count), "float32")
    workspace = _workspace(memory, x, q, values.count, values.dtype_number)
    check(
        _abi.library().gqsgd_norm(
            handle_of(q),
            site._pointer(),
            values.address,
            values.count,
            values.dtype_number,
            norms.address,
            workspace.address,
            workspace.count,
            memory.stream,
        )
    )
    return norms.owner


def quantize(x: Any, q: Quantizer, norms: Norms, *, site: Site, stream: Any = None) -> Words:
    """Rounds `x` (contiguous, any shape) at random to codes: `q.packed_size(x.size) / 4` words.
    norms: the global norms; where codes have none, one 0, as `norm` returns. With levels="rice" the
    words are those of `rice_groups`."""
    memory = memory_of(x, stream)
    values = memory.values(x, "x")
    scale = memory.norms(norms, "norms", q.norm_count(values.count))
    words = memory.new(x, _word_count(q, values.count, site), "uint32")
    check(
        _abi.library().gqsgd_quantize(
            handle_of(q),
            site._pointer(),
            values.address,
            values.count,
            values.dtype_number,
            scale.address,
            words.address,
            None,
            0,
            memory.stream,
        )
    )
    return words.owner


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
    out: where the result goes, not into `a`; `out=b` is in place, None makes a new array. On a
        device `out=b`.
    """
    memory = memory_of(b, stream)
    count = _lanes(memory, q, b) if count is None else count
    size = _word_count(q, count, site)
    peers, own = memory.words(a, "a", size), memory.words(b, "b", size, write=out is b)
    result = own if out is b else memory.copied(own, out, peers)
    check(
        _abi.library().gqsgd_reduce(
            handle_of(q), site._pointer(), peers.address, result.address, count, memory.stream
        )
    )
    return result.owner


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
    if len(words) == 0 or len(words) != site.size:
        raise InvalidArgument(f"words has {len(words)} arrays, site.size is {site.size}")
    memory = memory_of(words[0], stream)
    count = _lanes(memory, q, words[0]) if count is None else count
    size, norm_count = _word_count(q, count, site), q.norm_count(count)
    operands = [memory.words(each, f"words[{rank}]", size) for rank, each in enumerate(words)]
    scale = memory.norms(norms, "norms", norm_count)
    result = memory.new(words[0], _result_word_count(q, count, site), "uint32")
    scales = memory.new(words[0], norm_count, "float32")
    workspace = _workspace(memory, words[0], q, count, _abi.DTYPES["float32"])
    check(
        _abi.library().gqsgd_reduce_many(
            handle_of(q),
            site._pointer(),
            (ctypes.c_void_p * len(words))(*[operand.address for operand in operands]),
            count,
            scale.address,
            result.address,
            scales.address,
            workspace.address,
            workspace.count,
            memory.stream,
        )
    )
    return result.owner, scales.owner


def widths(
    norms: Norms, q: Quantizer, count: int, *, site: Site, stream: Any = None
) -> NDArray[np.uint8]:
    """Bits of the codes of each block of a call of `count` values, with width="adaptive": what all
    ranks compute from the global norms. 0 for a block of norm 0 or NaN."""
    memory = memory_of(norms, stream)
    block_count = q.norm_count(count)
    given = memory.norms(norms, "norms", block_count)
    result = memory.new(norms, block_count, "uint8")
    check(
        _abi.library().gqsgd_widths(
            handle_of(q), site._pointer(), given.address, count, result.address, memory.stream
        )
    )
    return result.owner


class RiceGroups(NamedTuple):
    """The groups of a call with levels="rice": words of group g begin at word g * words_each."""

    count: int  #: groups of the call
    words_each: int  #: words of a group's codes
    result_words_each: int  #: words of a group's sums

    def owned_by(self, rank: int, size: int) -> range:
        """The groups that a rank of `size` owns in the direct schedule, perhaps none."""
        if not 0 <= rank < size:
            raise InvalidArgument(f"rank is {rank}, size is {size}: ranks are 0 to size - 1")
        each = -(-self.count // size)
        return range(min(rank * each, self.count), min((rank + 1) * each, self.count))


def rice_groups(q: Quantizer, count: int, *, site: Site) -> RiceGroups:
    """How the codes of a call of `count` values lie in words, with levels="rice": what quantize
    returns and dequantize takes are those of group 0, group 1, .. Of `site` only the size counts.
    Raises InvalidArgument for other levels."""
    value_count = integer("count", count, ctypes.c_size_t)
    group_count, codes, sums = (ctypes.c_size_t() for _ in range(3))
    check(
        _abi.library().gqsgd_rice_groups(
            handle_of(q),
            site._pointer(),
            value_count,
            ctypes.byref(group_count),
            ctypes.byref(codes),
            ctypes.byref(sums),
        )
    )
    word_bytes = np.dtype(np.uint32).itemsize
    return RiceGroups(group_count.value, codes.value // word_bytes, sums.value // word_bytes)


def reduce_rice(
    words: Sequence[Words],
    q: Quantizer,
    groups: range,
    *,
    site: Site,
    count: int,
    stream: Any = None,
) -> Words:
    """As reduce_many, of some groups of a call with levels="rice": returns the words of their sums.

    words: `site.size` arrays in rank order, each with the words of these groups alone.
    groups: which, one after the other: `rice_groups(q, count, site=site).owned_by(rank, size)`.
    count: values of the whole call.
    site: with `hop=1` the random words, and so the bits, are those of an allreduce; with 0 the
        sums are as right, but have other bits.
    """
    if len(words) == 0 or len(words) != site.size:
        raise InvalidArgument(f"words has {len(words)} arrays, site.size is {site.size}")
    if not isinstance(groups, range) or groups.step != 1:
        raise InvalidArgument(f"groups is {groups!r}; a range with step 1 is needed")
    call = rice_groups(q, count, site=site)
    memory = memory_of(words[0], stream)
    size = len(groups) * call.words_each
    operands = [memory.words(each, f"words[{rank}]", size) for rank, each in enumerate(words)]
    result = memory.new(words[0], len(groups) * call.result_words_each, "uint32")
    workspace = _workspace(memory, words[0], q, count, _abi.DTYPES["float32"])
    check(
        _abi.library().gqsgd_reduce_rice(
            handle_of(q),
            site._pointer(),
            (ctypes.c_void_p * len(words))(*[operand.address for operand in operands]),
            count,
            integer("groups.start", groups.start, ctypes.c_size_t),
            len(groups),
            result.address,
            workspace.address,
            workspace.count,
            memory.stream,
        )
    )
    return result.owner


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
    norms: Norms | None = None,
) -> Any:
    """Decodes the codes of `site.size` ranks to `count` values.

    words: what reduce_many returned where site.reduction_depth is 0, or codes reduced in code form.
    scales: what reduce_many returned, or the global norms after reductions in code form.
    op: "mean" or "sum" over `site.size` ranks.
    out: `count` values to write, of any dtype; None makes a new array of `dtype`.
    norms: with width="adaptive" the global norms, which the widths of codes follow from.
    """
    memory = memory_of(words, stream)
    word_count = _word_count if site.reduction_depth else _result_word_count
    codes = memory.words(words, "words", word_count(q, count, site))
    scale = memory.norms(scales, "scales", q.norm_count(count))
    given = memory.new(words, count, dtype).owner if out is None else out
    values = memory.values(given, "out", count, write=True)
    if norms is not None:
        global_norms = memory.norms(norms, "norms", q.norm_count(count))
        check(
            _abi.library().gqsgd_dequantize_adaptive(
                handle_of(q),
                site._pointer(),
                codes.address,
                global_norms.address,
                scale.address,
                count,
                values.dtype_number,
                number_of("op", op, _abi.OPS),
                values.address,
                memory.stream,
            )
        )
        return values.owner
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
            memory.stream,
        )
    )
    return values.owner


def _workspace(memory: Memory, like: Any, q: Quantizer, value_count: int, dtype: int) -> View:
    """Scratch memory for one call on a device; on the host there is no need of it."""
    size_bytes = ctypes.c_size_t()
    if memory.stream is not None:
        check(
            _abi.library().gqsgd_workspace_size(
                handle_of(q), value_count, dtype, ctypes.byref(size_bytes)
            )
        )
    return memory.new(like, size_bytes.value, "uint8")


def _word_count(q: Quantizer, value_count: int, site: Site) -> int:
    if _has_rice_codes(q):
        groups = rice_groups(q, value_count, site=site)
        return groups.count * groups.words_each
    return q.packed_size(value_count) // np.dtype(np.uint32).itemsize


def _result_word_count(q: Quantizer, value_count: int, site: Site) -> int:
    if _has_rice_codes(q):
        groups = rice_groups(q, value_count, site=site)
        return groups.count * groups.result_words_each
    return q.result_size(value_count) // np.dtype(np.uint32).itemsize


def _has_rice_codes(q: Quantizer) -> bool:
    return "levels=rice" in q.spec


def _lanes(memory: Memory, q: Quantizer, words: Any) -> int:
    """How many values fit into the words; 1024 values fill whole words in every format."""
    for groups in ("width=adaptive", "levels=rice"):
        if groups in q.spec:
            raise InvalidArgument(f"words of {groups} do not tell how many values they have; "
                                  "give count")
    return 1024 * memory.words(words, "words").count * 4 // q.packed_size(1024)
