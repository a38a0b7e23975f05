"""The owner's step of the direct schedule: add decoded codes, encode once (FORMAT.md section 7)."""

import numpy as np

from .block_norm import NAN_CODE, largest_per_block, norm_codes, norms_of
from .correlated import node_thresholds
from .floats import bits, float32_of, ieee, rounded_up
from .levels import value_over_octave
from .narrow_codes import decode as decode_narrow
from .narrow_codes import encode as encode_narrow
from .narrow_codes import is_narrow, sum_factor
from .quantize import NEAREST_BITS, encode, rounding_bits
from .random import REENCODE, SUBTRACTIVE
from .words import unpack, unpack_signed

def add_wide(form, call, owner, operands, norms, value_count, first_value=0, hop=1, weights=None):
    """(words, scales) of the sum of all ranks' words, given in rank order.

    norms: one float32, or the codes of the blocks; the scales are these but with rescale.
    weights: of operands that are means of so many ranks each.
    """
    if form.levels == "none":
        return bits(sum_in_order([float32_of(words) for words in operands])).copy(), norms
    weights = weights or [1] * len(operands)
    if is_narrow(form.levels):
        sums = sum_in_order([decode_narrow(form, words, value_count, weight)
                              for words, weight in zip(operands, weights)])
        divided = sums / sum_factor(form.levels, form.rank_count)
        return encode_narrow(form, call, REENCODE, owner, hop, divided, first_value), norms
    S = _sum_of(form, operands, value_count, weights)
    if form.rescale:
        scales, sum_norms = rescaled(S, norms_of(norms), full_sum(form), form.block)
        sum_norms = np.repeat(sum_norms, form.block)[:value_count]
    else:
        scales, sum_norms = norms, np.float32(full_sum(form))
    r = reencode_bits(form, call, owner, hop, first_value, value_count)
    return encode(form.down, S, sum_norms, r), scales


def add_scaled_means(form, call, owner, means, weights, value_count, first_value=0, hop=2):
    """(words, scales) of the mean over all ranks, from those of nodes: [(words, scales)] in their
    order, of weights[k] ranks each. form: of the means and of the result."""
    S = sum_in_order([scaled_mean(form, *mean, weight, value_count)
                       for mean, weight in zip(means, weights)])
    scales = means_scales(S, form.block)
    norms = np.repeat(norms_of(scales), form.block)[:value_count]
    return encode(form, S, norms, reencode_bits(form, call, owner, hop, first_value,
                                                value_count)), scales


@ieee
def scaled_mean(form, words, scales, weight, value_count):
    """What the mean of `weight` ranks adds to that of all, float32; NaN where a scale is NaN."""
    w = np.float32(np.float64(weight) / (np.float64(form.rank_count) * form.s))
    factors = np.repeat(norms_of(scales) * w, form.block)[:value_count]
    return (unpack(words, form.bits, value_count) - form.s).astype(np.float32) * factors


def means_scales(S, block):
    """Scale codes of blocks of means: of the largest |S|, infinite only by a rounding."""
    peaks = largest_per_block(bits(S) & np.uint32(0x7FFFFFFF), block)
    return norm_codes(np.where(peaks == 0x7F800000, 0x7F7FFFFF, peaks))


def reencode_bits(form, call, owner, hop, first_value, value_count):
    """r(e) of what an owner encodes."""
    if form.nearest:
        return np.full(value_count, NEAREST_BITS)
    if form.rounding_down == "subtractive":
        return subtractive_bits(call, first_value, value_count)
    if form.rounding == "correlated" and form.node_count > 0:
        return node_thresholds(call, owner, form.node, form.node_count, hop, first_value,
                               value_count)
    return rounding_bits(call, REENCODE, owner, hop, first_value, value_count)


def subtractive_bits(call, first_value, value_count):
    """u of a subtractive re-encode: the same on every rank."""
    return rounding_bits(call, SUBTRACTIVE, 0, 0, first_value, value_count)


def full_sum(form):
    """The sum where every rank holds its largest code, as a float64."""
    if form.levels == "linear":
        return np.float64(form.rank_count * form.s)
    return np.float64(form.rank_count) * value_over_octave(form.largest_code, form.mantissa_bits)


@ieee
def rescaled(S, norms, full, block):
    """(scale codes, float32 norms of the sum) of blocks: each block's own largest |S|.

    full: the sum where every rank holds its largest code, one for all blocks or one of each.
    """
    peaks = float32_of(largest_per_block(bits(S) & np.uint32(0x7FFFFFFF), block))
    regular = (norms > 0) & (peaks > 0)  # a NaN is not
    N = np.where(regular, norms, np.float32(1)).astype(np.float64)
    D = N * peaks.astype(np.float64) / full
    codes = norm_codes(bits(rounded_up(D)))
    sum_norms = (norms_of(codes).astype(np.float64) * full / N).astype(np.float32)
    codes = np.where(regular, codes, np.where(np.isnan(norms), NAN_CODE, 0)).astype(np.uint16)
    return codes, np.where(regular, sum_norms, np.float32(0))


def _sum_of(form, operands, value_count, weights):
    """S as float32."""
    if form.levels == "exponential":
        return sum_in_order([np.float32(weight) * decoded_levels(words, form, value_count)
                              for words, weight in zip(operands, weights)])
    S = np.zeros(value_count, dtype=np.int64)
    for words, weight in zip(operands, weights):
        S += weight * (unpack(words, form.bits, value_count) - form.s)
    return S.astype(np.float32)


def decoded_levels(words, form, value_count):
    """Exponential codes as float32 values, the octave of the largest code at 1."""
    negative, codes = unpack_signed(words, form.bits, value_count)
    m = form.mantissa_bits
    octave = np.maximum(codes >> m, 1) - 1
    mantissa = np.where(codes < 2**m, codes, 2**m + codes % 2**m)
    exponent = octave - m - ((form.largest_code >> m) - 1)
    magnitudes = np.ldexp(mantissa.astype(np.float32), exponent.astype(np.int32))
    return np.where(negative & (codes > 0), -magnitudes, magnitudes)


@ieee
def sum_in_order(terms):
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
