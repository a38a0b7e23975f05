"""Cases for the owner's step with scales of its own, other bits, a subtractive re-encode."""

from dataclasses import replace

import numpy as np
from gqsgd_reference.floats import FLT_MAX
from gqsgd_reference.levels import Format
from gqsgd_reference.random import Call
from gqsgd_reference.rotation import padded_count
from gqsgd_reference.wide import add_wide
from gqsgd_reference.words import pack

from .support.edges import ONE
from .support.extended_keys import FORMAT_KEYS, NORM_CODES, call_keys, format_keys, numbers

DESCRIPTION = f"""
Codes of all ranks added wide and encoded once, in the extended formats (FORMAT.md section 7).
{FORMAT_KEYS}
rank: the owner.
operand_0, operand_1, ..: words of each rank, hex; norm: float32 for block 0, else norms: codes, 4
hex digits for each block; words: of bits_down, hex; scale: float32 for block 0, else scales:
codes (the norms where rescale is 0)."""

_PLAIN = Call(seed=0x1122334455667788, stream_id=4, step=6, index=1)


def wide_forms():
    """{name: Format} of every pair of bits, with and without what needs the direct schedule."""
    forms = {}
    for bits in (8, 4):
        for down in (8, 4):
            for block, rescale in ((0, False), (32, False), (32, True)):
                for rounding_down in ("random", "subtractive"):
                    name = f"linear{bits}_{down}_{block}_{int(rescale)}_{rounding_down}"
                    forms[name] = Format("linear", bits, "wide", 3, bits_down=down, block=block,
                                         rescale=rescale, rounding_down=rounding_down)
                name = f"exponential{bits}_{down}_{block}_{int(rescale)}"
                forms[name] = Format("exponential", bits, "wide", 3, bits_down=down, block=block,
                                     rescale=rescale)
    for block, rescale in ((0, False), (32, False), (32, True)):
        forms[f"mantissa_{block}_{int(rescale)}"] = Format(
            "exponential", 8, "wide", 3, block=block, rescale=rescale, mantissa_bits=2)
    plain = {"linear8_8_0_0_random", "exponential8_8_0_0", "linear4_4_0_0_random",
             "exponential4_4_0_0"}  # the paper's: wide_linear8.txt and its like have them
    return {name: form for name, form in forms.items() if name not in plain}


def lane_of_zero(form):
    """What quantize writes for zero."""
    return form.s if form.levels == "linear" else 0


def _lanes(form, rank, value_count):
    """Blocks of 32: first full codes, then smaller and smaller ones, the last all zero."""
    e = np.arange(value_count)
    size = np.maximum(form.largest_code >> (e // 32 % 7), 1)  # largest magnitude in e's block
    mixed = (e * 31 + rank * 57 + e % 11 * (rank + 3)) % (2 * size + 1) - size
    mixed = np.where(e // 32 % 7 == 6, 0, mixed)
    if form.levels == "linear":
        return mixed + form.s
    code = np.abs(mixed)
    if form.bits == 8:  # few codes lie 24 octaves below the largest
        code = np.where(code > 0, form.largest_code - code % 40, 0)
    return np.where(mixed < 0, code | (form.largest_code + 1), code) * (code > 0)


def operands_for(form, norms, value_count):
    """Words of each rank; zero where the norm decrees it."""
    lanes = [_lanes(form, rank, value_count) for rank in range(form.rank_count)]
    if form.block > 0:
        decreed = np.repeat((norms == 0) | (norms > 0x7F80), form.block)[:value_count]
        lanes = [np.where(decreed, lane_of_zero(form), row) for row in lanes]
    return [pack(row, form.bits) for row in lanes]


def _record(case, form, owner, first_value, value_count, operands, norms):
    code_count = padded_count(value_count) if form.rotate == "hadamard" else value_count
    words, scales = add_wide(form, _PLAIN, owner, operands, norms, code_count, first_value)
    ranks = {f"operand_{rank}": x for rank, x in enumerate(operands)}
    return {**format_keys(case, form), **call_keys(_PLAIN, owner, first_value, value_count),
            **ranks, **numbers("norm", form, norms), "words": words,
            **numbers("scale", form, scales)}


def _norms_for(form, value_count):
    if form.block == 0:
        return ONE
    return np.resize(NORM_CODES, -(-value_count // form.block))


def _usual(name, form):
    count = 9 * 32 if form.block > 0 else 33
    norms = _norms_for(form, count)
    return _record(name, form, 1, 64, count, operands_for(form, norms, count), norms)


def _equal(case, form, lane, norms, value_count=3):
    operands = [pack(np.full(value_count, lane), form.bits)] * form.rank_count
    return _record(case, form, 0, 0, value_count, operands, norms)


def _full_sums(name, form):
    """Every rank at its largest code, for many n: the scale is the norm, or just above it."""
    top = 2 * form.s if form.levels == "linear" else form.largest_code
    return [_equal(f"full_{name}_{count}", replace(form, rank_count=count), top,
                   np.uint16([0x3F81]))
            for count in (1, 2, 3, 5, 6, 7, 11, 127, 130)]


def _rescales():
    """Full sums, tails, nearest, the largest norm, and blocks of padded codes."""
    linear = Format("linear", 8, "wide", 3, block=32, rescale=True)
    four = replace(linear, bits=4, bits_down=8)
    mantissa = Format("exponential", 8, "wide", 3, block=32, rescale=True, mantissa_bits=2)
    records = _full_sums("linear", four) + _full_sums("mantissa", mantissa)
    for name, form in {"linear": linear, "four": four, "mantissa": mantissa}.items():
        for count in (0, 1, 31, 33, 100):
            norms = _norms_for(form, count)
            operands = operands_for(form, norms, count)
            records.append(_record(f"{name}_tail_{count}", form, 2, 0, count, operands, norms))
        norms = np.uint16([0x3F80] * 6 + [0x7F80])
        operands = operands_for(form, norms, 200)
        records.append(_record(f"{name}_nearest", replace(form, rounding="nearest"), 1, 0, 200,
                               operands, norms))
    rotated = replace(linear, rotate="hadamard", block=256, rounding_down="subtractive")
    norms = np.uint16([0x3F80, 0x3E01, 0, 0x7F80])
    operands = operands_for(rotated, norms, 1024)
    return [*records, _record("rotated", rotated, 1, 1024, 900, operands, norms)]


def _one_norm():
    """Norms that are zero, not finite or the largest, where one scale serves the call."""
    form = Format("linear", 8, "wide", 3, bits_down=4, rounding_down="subtractive")
    records = []
    for name, norm in {"zero": 0, "infinite": np.inf, "nan": np.nan}.items():
        records.append(_equal(f"one_norm_{name}", form, form.s, np.float32(norm)))
    return [*records, _equal("one_norm_flt_max", form, 2 * form.s, FLT_MAX)]


def block_sums():
    """Every format of the direct schedule that the paper's files lack."""
    records = [_usual(name, form) for name, form in wide_forms().items()]
    return records + _rescales() + _one_norm()


FILES = {"wide_blocks.txt": (DESCRIPTION, block_sums)}
