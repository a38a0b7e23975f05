"""Values to codes: scaling to the norm and rounding at random (FORMAT.md section 5)."""

import numpy as np

from .floats import bits, ieee
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


def linear_codes(values, norm, s, r):
    """Signed codes -s..s of float32 values; r: 23 random bits each, as uint64."""
    if norm == 0 or not np.isfinite(norm):
        return np.zeros(len(values), dtype=np.int64)
    t = np.copysign(scaled_magnitudes(values, norm, s), values)
    q = np.rint(t * np.float32(2**23)).astype(np.int64)
    return (q + r.astype(np.int64)) >> 23


def exponential_target(largest_code, headroom):
    """T: the y of a value that equals the norm."""
    return np.float32(2.0**(largest_code - 1 - 63 - headroom))


def exponential_codes(values, norm, target, r, nearest):
    """(negative, codes) of float32 values; r: 23 random bits each, as uint64."""
    negative = np.asarray(values) < 0
    if norm == 0 or not np.isfinite(norm):
        return negative, np.zeros(len(values), dtype=np.int64)
    y = scaled_magnitudes(values, norm, target)
    w = y + np.maximum(y, _LEAST_LEVEL)
    if not nearest:
        r = np.where(negative, r ^ np.uint64(0x7FFFFF), r)
    return negative, ((bits(w).astype(np.uint64) + r) >> np.uint64(23)).astype(np.int64) - 64


def rounding_bits(call, draw, rank, hop, first_value, value_count, nearest):
    """r(e) of an encode."""
    if nearest:
        return np.full(value_count, NEAREST_BITS)
    return random_words(call, draw, rank, hop, first_value, value_count) % np.uint64(2**23)


def quantize(form, call, rank, values, norm, first_value=0):
    """Packed words of float32 values that begin at element `first_value` of the call."""
    if form.levels == "none":
        return bits(values).copy()
    r = rounding_bits(call, QUANTIZE, rank, 0, first_value, len(values), form.nearest)
    if form.levels == "linear":
        return pack(linear_codes(values, norm, form.s, r) + form.s, form.bits)
    target = exponential_target(form.largest_code, form.headroom)
    negative, codes = exponential_codes(values, norm, target, r, form.nearest)
    return pack_signed(negative, codes, form.bits)
