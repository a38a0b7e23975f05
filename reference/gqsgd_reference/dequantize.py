"""Codes back to float32 values of the sum or the mean (FORMAT.md section 8)."""

import numpy as np

from .block_norm import per_element
from .floats import FLT_MAX, NAN_PATTERN, float32_of, ieee
from .levels import has_norm, value_over_octave
from .narrow_codes import decode as decode_narrow
from .narrow_codes import is_narrow
from .wide import decoded_levels, subtractive_bits
from .words import unpack, unpack_signed


@ieee
def dequantize(form, words, scales, value_count, op, call=None, first_value=0):
    """float32 values, rotated still where they were rotated.

    scales: the norm or norm codes, or what add_wide gave; op: "sum" or "mean"; call, first_value:
    for subtractive codes, whose words are drawn again.
    """
    form = form.down
    if not has_norm(form.levels):
        return _canonical_nan(_decode_floats(form, words, value_count, op))
    scale = per_element(scales, form.block, value_count)
    if form.levels == "linear":
        top = form.rank_count * form.s if form.combine == "exact" else form.s
        codes = unpack(words, form.bits, value_count) - top
        return linear_values(form, codes, scale, top, op, call, first_value)
    if form.combine == "sum":
        values = _decode_exponential_sum(form, words, _regular(scale), value_count, op)
    else:
        values = _decode_exponential(form, words, _regular(scale), value_count, op)
    return _scaled(values, scale)


@ieee
def linear_values(form, codes, scale, top, op, call, first_value):
    """float32 values of signed linear codes. scale, top: one for all, or one of each element."""
    u = None
    if form.rounding_down == "subtractive":
        u = subtractive_bits(call, first_value, len(codes)).astype(np.int64)
    return _scaled(_decode_linear(codes, _regular(scale), top, _factor(form, op), u), scale)


def _regular(scale):
    """Scales as float64, 1 where they are 0 or not finite."""
    regular = np.isfinite(scale) & (scale > 0)
    return np.where(regular, scale, np.float32(1)).astype(np.float64)


def _scaled(values, scale):
    """Values as they are, 0 where the scale is 0, NaN where it is not finite."""
    values = np.where(scale == 0, np.float32(0), values)
    return np.where(np.isfinite(scale), values, float32_of(NAN_PATTERN["float32"]))


def _decode_floats(form, words, value_count, op):
    if is_narrow(form.levels):
        total = decode_narrow(form, words, value_count, form.rank_count)
    else:
        total = float32_of(words)[:value_count]
    return total / np.float32(form.rank_count) if op == "mean" else total


def _canonical_nan(values):
    return np.where(np.isnan(values), float32_of(NAN_PATTERN["float32"]), values)


def _factor(form, op):
    return np.float64(form.rank_count if op == "sum" else 1)


def _bounded(values):
    """float64 values as float32, at most the largest finite one."""
    return np.minimum(values.astype(np.float32), FLT_MAX)


def _decode_linear(codes, scale, top, factor, u):
    """u: what a subtractive re-encode added, or None."""
    step = linear_step(scale, factor, np.maximum(top, 1))  # no steps: no code but 0
    if u is None:
        return codes.astype(np.float32) * step
    if factor == 1:
        step = np.minimum(step, largest_subtractive_step(top))
    return subtractive_steps(codes, u) * step


@ieee
def linear_step(scale, factor, top):
    """What one of `top` steps is in the result; scale: float64, regular."""
    step = _bounded(np.asarray(scale * np.float64(factor) / np.float64(top)))
    if factor != 1:
        return step
    infinite = np.isinf(np.float32(top) * step)
    return np.where(infinite, np.nextafter(step, np.float32(0)), step)


def subtractive_steps(codes, u):
    """code - u / 2^23 + 1/2 in float32: what codes rounded with u stand for."""
    K = np.asarray(codes, dtype=np.int64) * 2**23 - u + 2**22
    return K.astype(np.float32) * np.float32(2.0**-23)


def largest_subtractive_step(top):
    """The step of a mean whose values, up to (top + 1/2) steps, are finite."""
    limit = np.asarray(np.float64(FLT_MAX) / (top + 0.5))
    nearest = limit.astype(np.float32)
    return np.where(nearest <= limit, nearest, np.nextafter(nearest, np.float32(0)))


def _decode_exponential(form, words, scale, value_count, op):
    V = value_over_octave(form.largest_code, form.mantissa_bits)
    unit = _bounded(scale * _factor(form, op) / np.float64(V))
    magnitudes = unit * np.abs(decoded_levels(words, form, value_count))
    return _signed(form, words, value_count, magnitudes)


def _decode_exponential_sum(form, words, scale, value_count, op):
    divisor = np.float64(form.rank_count if op == "mean" else 1)
    unit = (scale / divisor).astype(np.float32)
    _, codes = unpack_signed(words, form.bits, value_count)
    # Exact in float64, so that the conversion is the one rounding of unit * 2^(..).
    exact = unit.astype(np.float64) * np.ldexp(1.0, codes - (form.largest_code - form.headroom))
    return _signed(form, words, value_count, exact.astype(np.float32))


def _signed(form, words, value_count, magnitudes):
    negative, codes = unpack_signed(words, form.bits, value_count)
    return np.where(codes == 0, np.float32(0), np.where(negative, -magnitudes, magnitudes))
