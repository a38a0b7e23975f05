"""Values to codes: scaling to the norm and rounding at random (FORMAT.md section 5)."""

import numpy as np

from .block_norm import per_element
from .correlated import thresholds
from .floats import bits, ieee
from .levels import exponential_value
from .narrow_codes import encode as encode_narrow
from .narrow_codes import is_narrow
from .random import QUANTIZE, random_words
from .words import pack, pack_signed

_LEAST_LEVEL = np.float32(2.0**-63)  # y of exponential code 1
NEAREST_BITS = np.uint64(2**22)  # r of every element with rounding = nearest


@ieee
def scale_factors(norm, target):
    """(p, r) such that |x| = norm gives exactly `target` and nothing gives more."""
    exponent_field = (bits(norm) >> np.uint32(23)).astype(np.int32)
    p = np.ldexp(np.float32(1), 127 - np.clip(exponent_field, 1, 253))
    m = np.float32(norm) * p
    r = np.float32(target) / m
    return p, np.where(m * r < np.float32(target), np.nextafter(r, np.float32(np.inf)), r)


@ieee
def scaled_magnitudes(values, norm, target):
    """y(x) of float32 values for a norm > 0."""
    p, r = scale_factors(norm, target)
    return np.minimum(np.abs(values) * p * r, np.float32(target))


def _regular(values, norm):
    """(values, norm), but 0 and 1 where the norm is 0 or not finite: zero has the code 0."""
    regular = np.isfinite(norm) & (norm > 0)
    return np.where(regular, values, np.float32(0)), np.where(regular, norm, np.float32(1))


@ieee
def linear_codes(values, norm, s, r):
    """Signed codes -s..s of float32 values.

    norm, s: one for all, or one of each element; r: 23 random bits each, as uint64.
    """
    values, norm = _regular(values, norm)
    t = np.copysign(scaled_magnitudes(values, norm, s), values)
    q = np.rint(t * np.float32(2**23)).astype(np.int64)
    return (q + r.astype(np.int64)) >> 23


def exponential_target(largest_code, headroom, mantissa_bits=0):
    """T: the y of a value that equals the norm."""
    top = float(exponential_value(largest_code, mantissa_bits))
    return np.float32(top * 2.0**(-63 - headroom))


@ieee
def exponential_codes(values, norm, target, r, nearest, mantissa_bits=0):
    """(negative, codes) of float32 values; norm and r as for linear_codes."""
    values, norm = _regular(values, norm)
    negative = values < 0
    y = scaled_magnitudes(values, norm, target)
    w = y + np.maximum(y, _LEAST_LEVEL)
    if not nearest:
        r = np.where(negative, r ^ np.uint64(0x7FFFFF), r)
    carried = bits(w).astype(np.uint64) + (r >> np.uint64(mantissa_bits))
    codes = (carried >> np.uint64(23 - mantissa_bits)).astype(np.int64) - (64 << mantissa_bits)
    return negative, codes


def rounding_bits(call, draw, rank, hop, first_value, value_count):
    """r(e) of an encode with rounding at random."""
    return random_words(call, draw, rank, hop, first_value, value_count) % np.uint64(2**23)


def encode(form, values, norm, r):
    """Packed words of float32 values; norm and r as for linear_codes."""
    if form.levels == "linear":
        return pack(linear_codes(values, norm, form.s, r) + form.s, form.bits)
    m = form.mantissa_bits
    target = exponential_target(form.largest_code, form.headroom, m)
    return pack_signed(*exponential_codes(values, norm, target, r, form.nearest, m), form.bits)


def quantize_bits(form, call, rank, first_value, value_count):
    """r(e) of one rank's elements."""
    if form.nearest:
        return np.full(value_count, NEAREST_BITS)
    if form.rounding == "correlated":
        return thresholds(call, rank, form.rank_count, first_value, value_count)
    return rounding_bits(call, QUANTIZE, rank, 0, first_value, value_count)


def quantize(form, call, rank, values, norms, first_value=0):
    """Packed words of float32 values that begin at element `first_value` of the call.

    norms: one float32, or the codes of the blocks; values: rotated already if they are to be.
    """
    if form.levels == "none":
        return bits(values).copy()
    if is_narrow(form.levels):
        return encode_narrow(form, call, QUANTIZE, rank, 0, values, first_value)
    r = quantize_bits(form, call, rank, first_value, len(values))
    return encode(form, values, per_element(norms, form.block, len(values)), r)
