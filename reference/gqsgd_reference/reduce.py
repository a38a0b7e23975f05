"""Two operands in code form become one, without decoding (FORMAT.md section 6)."""

import numpy as np

from .floats import bits, float32_of, ieee
from .levels import exponential_value
from .random import REDUCE, random_words
from .words import pack, pack_signed, unpack, unpack_signed


def reduce(form, call, rank, hop, weights, a, b, value_count, first_value=0):
    """Words of a + b, or of their mean.

    a: words from the peer; b: this rank's own; weights: (w_a, w_b), the ranks merged in each.
    """
    R = random_words(call, REDUCE, rank, hop, first_value, value_count)
    if form.levels == "none":
        return _add_floats(a, b)
    if form.levels == "linear":
        if form.combine == "exact":
            return np.asarray(a, dtype=np.uint32) + np.asarray(b, dtype=np.uint32)
        lanes = (unpack(a, form.bits, value_count), unpack(b, form.bits, value_count))
        return pack(average_lanes(*lanes, *weights, R), form.bits)
    operands = (unpack_signed(a, form.bits, value_count), unpack_signed(b, form.bits, value_count))
    if form.combine == "sum":
        result = sum_exponential(*operands, form.largest_code, R)
    else:
        result = average_exponential(*operands, *weights, form.largest_code, R)
    return pack_signed(*result, form.bits)


def add_integers(operands):
    """Words of the exact sum of all operands, each two words one integer of 64 bits."""
    count = len(operands[0])
    pairs = [np.concatenate([words, np.uint32([0] * (count % 2))]).astype("<u4").view("<u8")
             for words in operands]
    return np.sum(pairs, axis=0, dtype=np.uint64).astype("<u8").view("<u4")[:count]


@ieee
def _add_floats(a, b):
    return bits(float32_of(a) + float32_of(b)).copy()


def average_lanes(lane_a, lane_b, weight_a, weight_b, R):
    """The weighted mean of linear lanes code + s, rounded at random to a lane."""
    W = weight_a + weight_b
    dither = ((R * np.uint64(W)) >> np.uint64(32)).astype(np.int64)
    return (weight_a * lane_a + weight_b * lane_b + dither) // W


def sum_exponential(a, b, largest_code, R):
    """Algorithm 2 of the paper on (negative, codes) operands."""
    (negative_a, code_a), (negative_b, code_b) = a, b
    a_is_larger = code_a >= code_b
    larger, smaller = np.maximum(code_a, code_b), np.minimum(code_a, code_b)
    negative = np.where(a_is_larger, negative_a, negative_b)
    d = larger - smaller
    same = np.minimum(larger + happens(R, d), largest_code)
    opposite = np.where(d == 0, 0, larger - happens(R, d - 1))
    codes = np.where(negative_a == negative_b, same, opposite)
    return negative, np.where(smaller == 0, larger, codes)


def happens(R, exponent):
    """The event R < 2^(32 - exponent): of probability 2^-exponent to 32, never beyond."""
    threshold = np.uint64(1) << (32 - np.clip(exponent, 0, 32)).astype(np.uint64)
    return (exponent <= 32) & (R < threshold)


def average_exponential(a, b, weight_a, weight_b, largest_code, R):
    """The weighted mean of (negative, codes) operands, rounded at random to a level."""
    V = np.array([int(exponential_value(c)) for c in range(largest_code + 1)], dtype=np.int64)
    (negative_a, code_a), (negative_b, code_b) = a, b
    A = np.where(negative_a, -V[code_a], V[code_a])
    B = np.where(negative_b, -V[code_b], V[code_b])
    total, W = weight_a * A + weight_b * B, weight_a + weight_b
    num = np.abs(total)
    lo = np.searchsorted(V * W, num, side="right") - 1
    below_top = lo < largest_code
    D = (V[np.where(below_top, lo + 1, lo)] - V[lo]) * W
    r = (R % np.uint64(2**23)).astype(np.int64)
    r = np.where(total < 0, r ^ 0x7FFFFF, r)
    up = below_top & ((num - V[lo] * W) * 2**23 + r * D >= D * 2**23)
    return total < 0, lo + up
