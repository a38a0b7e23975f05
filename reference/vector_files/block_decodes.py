"""Cases for dequantize with scales per block, subtractive codes, rotation or mantissa bits."""

from dataclasses import replace

import numpy as np
from gqsgd_reference.dequantize import dequantize
from gqsgd_reference.floats import FLT_MAX
from gqsgd_reference.levels import Format
from gqsgd_reference.random import Call
from gqsgd_reference.rotation import padded_count, rotate_back
from gqsgd_reference.words import pack

from .block_sums import wide_forms
from .support.edges import NORMS, ONE
from .support.extended_keys import FORMAT_KEYS, NORM_CODES, call_keys, format_keys, numbers

DESCRIPTION = f"""
Codes to float32 values in the extended formats (FORMAT.md section 8; back from rotation: 12).
{FORMAT_KEYS}
op: sum or mean; scale: float32 for block 0, else scales: codes, 4 hex digits for each block;
words: of bits_down after wide sums, hex; values: float32."""

_PLAIN = Call(seed=0x8877665544332211, stream_id=5, step=7, index=2)


def _record(case, form, op, first_value, value_count, scales, words):
    rotated = form.rotate == "hadamard"
    code_count = padded_count(value_count) if rotated else value_count
    values = dequantize(form, words, scales, code_count, op, _PLAIN, first_value)
    if rotated:
        values = rotate_back(_PLAIN, values, value_count, first_value)
        values = np.where(np.isnan(values), np.uint32(0x7FC00000).view(np.float32), values)
    return {**format_keys(case, form), **call_keys(_PLAIN, 0, first_value, value_count), "op": op,
            **numbers("scale", form, scales), "words": np.asarray(words), "values": values}


def _lanes(form):
    """32 lanes that a result can hold, both ends and the middle among them."""
    down = form.down
    if down.levels == "linear":
        top = down.s * (down.rank_count if down.combine == "exact" else 1)
        ends = [0, 1, top - 1, top, top + 1, 2 * top - 1, 2 * top]
        return np.array([*ends, *(np.arange(25) * 11 % (2 * top + 1))])
    C = down.largest_code
    codes = np.array([0, 1, 2, 3, 4, 5, C, C - 1, *(C - np.arange(24) * 5 % C)]) % (C + 1)
    return np.where((np.arange(32) % 3 == 1) & (codes > 0), codes | (C + 1), codes)


def _blocks(name, form, op):
    words = pack(np.tile(_lanes(form), len(NORM_CODES)), form.down.bits)
    return _record(f"{name}_{op}", form, op, 64, 32 * len(NORM_CODES), NORM_CODES, words)


def _one_scale(name, form, op, scale_name, scale):
    words = pack(_lanes(form), form.down.bits)
    return _record(f"{name}_{op}_{scale_name}", form, op, 64, 32, np.float32(scale), words)


def _rotated(form):
    """Tails, zeros, one poisoned rotation among good ones, sums beyond the largest number."""
    form = replace(form, rotate="hadamard", block=512)
    records = []
    for name, count, scales in (
            ("5", 5, [0x3F80]), ("600", 600, [0x3F80, 0x3E01]), ("zeros", 9, [0]),
            ("flt_max", 7, [0x7F80]), ("nan", 1026, [0x7FFF, 0x7FFF, 0x3F80])):
        words = pack(np.resize(_lanes(form), padded_count(count)), form.down.bits)
        for op in ("mean", "sum") if name == "600" else ("mean",):
            case = f"rotated_{form.levels}_{name}_{op}"
            records.append(_record(case, form, op, 1024, count, np.uint16(scales), words))
    return records


def block_decodes():
    """Scales at their edges for every way that codes come about."""
    # What a rank sent, and how a scale was found, does not show any more.
    forms = {name: form for name, form in wide_forms().items()
             if not form.rescale and form.bits == 8}
    in_code_form = {
        "exact8": Format("linear", 8, "exact", 3, 2),
        "average4": Format("linear", 4, "average", 3, 2),
        "sum8": Format("exponential", 8, "sum", 3, 2),
        "average4e": Format("exponential", 4, "average", 3, 2)}
    forms.update({name: replace(form, block=32) for name, form in in_code_form.items()})
    scales = {"tenth": NORMS["tenth"], "exponent_field_254": NORMS["exponent_field_254"],
              "denormal_odd": NORMS["denormal_odd"], "flt_max": FLT_MAX, "zero": 0, "nan": np.nan}
    records = []
    for place, (name, form) in enumerate(forms.items()):
        op = ("mean", "sum")[place % 2]
        if form.block > 0:
            records.append(_blocks(name, form, op))
            continue
        for scale_name, scale in scales.items():
            records.append(_one_scale(name, form, "mean", scale_name, scale))
        records.append(_one_scale(name, form, "sum", "one", ONE))
    subtractive = forms["linear8_8_32_0_subtractive"]
    return [*records, *_rotated(subtractive), *_rotated(forms["mantissa_32_0"])]


FILES = {"dequantize_blocks.txt": (DESCRIPTION, block_decodes)}
