"""The owner's step of the direct schedule: add decoded codes, encode once (FORMAT.md section 7)."""

import numpy as np

from .floats import bits, float32_of, ieee
from .quantize import exponential_codes, exponential_target, linear_codes, rounding_bits
from .random import REENCODE
from .words import pack, pack_signed, unpack, unpack_signed

_HOP = 1


def add_wide(form, call, owner, operands, norm, value_count, first_value=0):
    """(words, scale) of the sum of all ranks' words, given in rank order. The scale is the norm."""
    if form.levels == "none":
        return bits(_sum_in_order([float32_of(words) for words in operands])).copy(), norm
    r = rounding_bits(call, REENCODE, owner, _HOP, first_value, value_count, form.nearest)
    if form.levels == "linear":
        return _encode_linear_sum(form, operands, value_count, r), norm
    return _encode_exponential_sum(form, operands, value_count, r), norm


def _encode_linear_sum(form, operands, value_count, r):
    S = np.zeros(value_count, dtype=np.int64)
    for words in operands:
        S += unpack(words, form.bits, value_count) - form.s
    Z = np.float32(len(operands) * form.s)
    return pack(linear_codes(S.astype(np.float32), Z, form.s, r) + form.s, form.bits)


def _encode_exponential_sum(form, operands, value_count, r):
    S = _sum_in_order([decoded_levels(words, form, value_count) for words in operands])
    Z = np.float32(len(operands))
    target = exponential_target(form.largest_code, 0)
    return pack_signed(*exponential_codes(S, Z, target, r, form.nearest), form.bits)


def decoded_levels(words, form, value_count):
    """+-2^(c - C), 0 for c = 0, as float32: exponential codes for a norm of 1."""
    negative, codes = unpack_signed(words, form.bits, value_count)
    magnitudes = np.ldexp(np.float32(1), codes - form.largest_code)
    signed = np.where(negative, -magnitudes, magnitudes)
    return np.where(codes == 0, np.float32(0), signed)


@ieee
def _sum_in_order(terms):
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
