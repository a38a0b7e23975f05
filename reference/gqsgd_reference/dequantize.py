"""Codes back to float32 values of the sum or the mean (FORMAT.md section 8)."""

import numpy as np

from .floats import FLT_MAX, NAN_PATTERN, float32_of, ieee
from .words import unpack, unpack_signed


@ieee
def dequantize(form, words, scale, value_count, op):
    """float32 values. scale: the norm, or what add_wide gave; op: "sum" or "mean"."""
    if form.levels == "none":
        return _canonical_nan(_decode_floats(form, words, value_count, op))
    if not np.isfinite(scale):
        return np.full(value_count, float32_of(NAN_PATTERN["float32"]))
    if scale == 0:
        return np.zeros(value_count, dtype=np.float32)
    if form.levels == "linear":
        return _decode_linear(form, words, scale, value_count, op)
    return _decode_exponential(form, words, scale, value_count, op)


def _decode_floats(form, words, value_count, op):
    total = float32_of(words)[:value_count]
    return total / np.float32(form.rank_count) if op == "mean" else total


def _canonical_nan(values):
    return np.where(np.isnan(values), float32_of(NAN_PATTERN["float32"]), values)


def _decode_linear(form, words, scale, value_count, op):
    top = form.rank_count * form.s if form.combine == "exact" else form.s
    factor = np.float64(form.rank_count if op == "sum" else 1)
    step = np.minimum(np.float32(np.float64(scale) * factor / np.float64(top)), FLT_MAX)
    if factor == 1 and np.isinf(np.float32(top) * step):
        step = np.nextafter(step, np.float32(0))
    codes = unpack(words, form.bits, value_count) - top
    return codes.astype(np.float32) * step


def _decode_exponential(form, words, scale, value_count, op):
    if form.combine == "sum":
        divisor = np.float64(form.rank_count if op == "mean" else 1)
        unit = np.float32(np.float64(scale) / divisor)
        code_of_unit = form.largest_code - form.headroom
    else:
        factor = np.float64(form.rank_count if op == "sum" else 1)
        unit = np.minimum(np.float32(np.float64(scale) * factor), FLT_MAX)
        code_of_unit = form.largest_code
    negative, codes = unpack_signed(words, form.bits, value_count)
    # Exact in float64, so that the conversion is the one rounding of unit * 2^(..).
    exact = np.float64(unit) * np.ldexp(1.0, codes - code_of_unit)
    magnitudes = exact.astype(np.float32)
    return np.where(codes == 0, np.float32(0), np.where(negative, -magnitudes, magnitudes))
