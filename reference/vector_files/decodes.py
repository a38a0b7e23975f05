"""Cases for dequantize: every code, and scales at their edges."""

import numpy as np
from gqsgd_reference.dequantize import dequantize
from gqsgd_reference.floats import FLT_MAX, bits
from gqsgd_reference.levels import Format
from gqsgd_reference.words import pack

from .support.edges import DENORMAL_MIN, INFINITY, NAN, NORMS

# Scales at which a step underflows, is inexact, or overflows in a sum.
_SCALES = {**{name: NORMS[name] for name in (
    "tenth", "all_mantissa_bits", "denormal_min", "denormal_odd", "exponent_field_1",
    "exponent_field_254", "flt_max")}, "zero": np.float32(0), "infinite": INFINITY, "nan": NAN}

DESCRIPTION = """
Codes to float32 values (FORMAT.md section 8).
levels; bits; combine: exact, average or sum, or wide for the direct schedule; rank_count;
combines; op: sum or mean; value_count: integer.
scale: float32; words: hex; values: float32."""


def record(case, form, op, scale, words, value_count):
    """One record of dequantize; levels none have no scale."""
    scales = {} if form.levels == "none" else {"scale": np.float32(scale)}
    values = dequantize(form, words, scale, value_count, op)
    return {"case": case, "levels": form.levels, "bits": form.bits, "combine": form.combine,
            "rank_count": form.rank_count, "combines": form.reduction_depth, "op": op,
            "value_count": value_count, **scales, "words": np.asarray(words, dtype=np.uint32),
            "values": values}


def _all_lanes(form):
    """Every lane that a result can hold."""
    if form.levels == "exponential":
        return [lane for lane in range(2**form.bits) if lane != 2**(form.bits - 1)]
    ranks_added = form.rank_count if form.combine == "exact" else 1
    return list(range(2 * ranks_added * form.s + 1))


def _edge_lanes(form):
    lanes = _all_lanes(form)
    if form.levels == "linear":
        middle = len(lanes) // 2
        return [*lanes[:2], *lanes[middle - 1:middle + 2], *lanes[-2:]]
    C, sign = form.largest_code, form.largest_code + 1
    codes = sorted({1, 2, C // 2, C - form.headroom, C - 1, C} - {0})
    return [0, *codes, *(sign | code for code in codes)]


def _cases(form, every_code):
    name = f"{form.combine}_{form.rank_count}"
    records = []
    edge, every = _edge_lanes(form), _all_lanes(form)
    for op in ("sum", "mean"):
        for scale_name, scale in _SCALES.items():
            records.append(record(f"{name}_{op}_scale_{scale_name}", form, op, scale,
                                  pack(edge, form.bits), len(edge)))
        if every_code:
            records.append(record(f"{name}_{op}_every_code", form, op, np.float32(0.1),
                                  pack(every, form.bits), len(every)))
    return records


def _records(forms):
    """All codes for the first format, edges for the others."""
    return [one for place, form in enumerate(forms) for one in _cases(form, place == 0)]


def linear(bits_):
    """After exact sums, averages and wide sums."""
    most = 2**(bits_ - 1) - 1
    return _records([
        Format("linear", bits_, "average", 3, 2), Format("linear", bits_, "exact", 1, 0),
        Format("linear", bits_, "exact", 3, 2), Format("linear", bits_, "exact", most, most - 1),
        Format("linear", bits_, "wide", 1000)])


def exponential8():
    """After sums with all kinds of headroom and after wide sums."""
    return _records([
        Format("exponential", 8, "sum", 3, 2), Format("exponential", 8, "sum", 1, 0),
        Format("exponential", 8, "sum", 100, 99), Format("exponential", 8, "wide", 1000)])


def exponential4():
    """After averages and wide sums: the same rule."""
    return _records([
        Format("exponential", 4, "average", 3, 2), Format("exponential", 4, "wide", 7)])


def none():
    """The sum itself or divided; every NaN becomes one pattern."""
    values = [0.0, -0.0, 1, -1, 0.1, DENORMAL_MIN, FLT_MAX, INFINITY, -INFINITY, NAN, -NAN]
    nans = np.uint32([0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF])
    words = np.append(bits(np.array(values, dtype=np.float32)), nans)
    records = []
    for count in (1, 3):
        form = Format("none", 32, "sum", count, count - 1)
        records += [record(f"ranks_{count}_{op}", form, op, 1, words, len(words))
                    for op in ("sum", "mean")]
    return records


FILES = {
    "dequantize_linear8.txt": (DESCRIPTION, lambda: linear(8)),
    "dequantize_linear4.txt": (DESCRIPTION, lambda: linear(4)),
    "dequantize_exponential8.txt": (DESCRIPTION, exponential8),
    "dequantize_exponential4.txt": (DESCRIPTION, exponential4),
    "dequantize_none.txt": (DESCRIPTION + "\nLevels none have no scale.", none),
}
