"""What is known before anything runs: bounds on error and sparsity, and the time to expect."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _abi
from .arguments import c_string, integer, number_of
from .errors import check
from .quantizer import Quantizer, handle_of


def variance_bound(q: Quantizer, n: int, d: int, schedule: str = "auto") -> float:
    """theta of E ||G(x) - mean||^2 <= theta / n * sum_i ||x_i||^2.

    n: ranks. d: values per rank. G(x) is what an allreduce with op="mean" returns.

    Global-QSGD, theorem on variance, for norms with p, q >= 2 and s levels: sqrt(d/n) / s for
    linear and 1/(8n) + sqrt(d/n) / 2^(s-1) for exponential levels. The library extends it:
    the least of that and d/(4 s^2), so that no condition on s is needed; p or q = 1; headroom; the
    roundings of averages and of the re-encode. Levels bf16 and fp16 have 2^-16 and 2^-22 in place
    of 1/8 and no other term. Roundings inside exponential reductions are common
    to all ranks and do not average out: 1 + theta grows by 9/8 with each, where a quick reading of
    the paper has theta grow (see depth_factor).

    With blocks d is their length. Correlated rounding, rescale and rotation have the bound of a
    format without them, twice that where a norm spans rotations of several lengths; they are better
    in most cases. schedule="sparse" has the bound of direct,
    which replaces it where a call has too many sparse entries; the error of sparse entries is no
    larger.

    It leaves out float32's own rounding: below 2^-20 of it while norm / s of linear levels, or the
    norm of exponential ones, is 2^-126 or more. Results are multiples of 2^-149, and values of 1 to
    8 of these do exceed the bound. Float32 sums of levels exponential, none, bf16 and fp16 are left
    out too: up to (n * 2^-24)^2 of theta, from 8192 ranks on more than all of fp16's.

    Infinite where a chain is too long for any bound. Raises Unsupported where no bound is
    known, as for rounding="nearest", which is biased.
    """
    return _bound("gqsgd_variance_bound", q, n, integer("d", d, ctypes.c_size_t), schedule)


def sparsity_bound(q: Quantizer, n: int, d: int, schedule: str = "auto") -> float:
    """How many codes other than zero n ranks of d values are expected to have, at most.

    All ranks together: s^2 + s sqrt(nd) for linear and 2^(2s-2) + 2^(s-1) sqrt(nd) for exponential
    levels with p = q = 2; the paper's theorem prints the root without its factor, which equal
    values contradict. Raises Unsupported for norms other than p, q <= 2.
    """
    return _bound("gqsgd_sparsity_bound", q, n, integer("d", d, ctypes.c_size_t), schedule)


def depth_factor(q: Quantizer, n: int, schedule: str = "auto") -> float:
    """(9/8)^depth for exponential levels, by which 1 + theta grows through a schedule's reductions.

    depth: the longest chain of reductions (n - 1 in a ring, ceil(log2 n) in a tree), 1 for the one
    re-encode of the direct schedule, 2 for those of the hierarchical one. 81/80 with mantissa bits;
    1 + 2^-16 for bf16 and 1 + 2^-22 for fp16; 1 for linear levels and for the sparse schedule's
    entries.
    """
    return _bound("gqsgd_depth_factor", q, n, None, schedule)


def predict_time(
    q: Quantizer,
    n: int,
    d: int,
    schedule: str = "auto",
    dtype: str = "float32",
    constants: str | None = None,
) -> float:
    """Seconds that an allreduce of d values over n ranks is expected to take.

    constants: what gqsgd-calibrate writes, as a string of "name = value" lines; names left out, and
    all with None, have built-in values: ranks with processors of their own at 10 Gbit/s.
    schedule: "auto" is what it would choose with these constants; with None it is direct.

    By arithmetic on the moves of one rank, for 100,000 ranks mostly in 0.1 s. Raises
    InvalidArgument for a malformed string, Unsupported for "sparse", whose time depends on values,
    and for "native" without the constants of it.
    """
    answer = ctypes.c_double()
    check(
        _abi.library().gqsgd_predict_time(
            handle_of(q),
            number_of("schedule", schedule, _abi.SCHEDULES),
            integer("n", n, ctypes.c_int32),
            integer("d", d, ctypes.c_size_t),
            number_of("dtype", dtype, _abi.DTYPES),
            None if constants is None else c_string("constants", constants),
            ctypes.byref(answer),
        )
    )
    return answer.value * 1e-9


def _bound(function: str, q: Quantizer, n: int, d: int | None, schedule: str) -> float:
    answer = ctypes.c_double()
    sizes: list[Any] = [integer("n", n, ctypes.c_int32)] + ([] if d is None else [d])
    number = number_of("schedule", schedule, _abi.SCHEDULES)
    check(getattr(_abi.library(), function)(handle_of(q), *sizes, number, ctypes.byref(answer)))
    return answer.value
