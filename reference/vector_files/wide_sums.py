"""Cases for the direct schedule's owner: all operands added wide, the sum encoded once."""

from dataclasses import replace

import numpy as np
from gqsgd_reference.floats import FLT_MAX, bits
from gqsgd_reference.levels import Format
from gqsgd_reference.random import REENCODE, Call
from gqsgd_reference.wide import add_wide
from gqsgd_reference.words import pack

from .support.edges import DENORMAL_MIN, INFINITY, NAN, NORMS, ONE, TAILS, generated
from .support.positions import CALL, ONES, POWER

DESCRIPTION = """
Codes of all ranks added wide and encoded once (FORMAT.md section 7).
levels; bits; rank_count; rounding: independent or nearest; seed, stream_id, step, index;
rank: the owner; first_value, value_count: integers.
operand_0, operand_1, ..: words of each rank, hex; norm: float32; words: hex; scale: float32.
enough_k and short_k: r(e) is just enough, or one too small, to reach the upper level."""

_PLAIN = Call(seed=0x1122334455667788, stream_id=4, step=6, index=1)


def record(case, form, call, owner, first_value, value_count, operands, norm):
    """One record of a wide sum; levels none have no norm and no scale."""
    words, scale = add_wide(form, call, owner, operands, norm, value_count, first_value)
    ranks = {f"operand_{rank}": np.asarray(x, dtype=np.uint32) for rank, x in enumerate(operands)}
    scales = ({}, {}) if form.levels == "none" else ({"norm": np.float32(norm)}, {"scale": scale})
    return {"case": case, "levels": form.levels, "bits": form.bits, "rank_count": form.rank_count,
            "rounding": form.rounding, "seed": call.seed,
            "stream_id": call.stream_id, "step": call.step, "index": call.index, "rank": owner,
            "first_value": first_value, "value_count": value_count, **ranks, **scales[0],
            "words": words, **scales[1]}


def _lanes(form, rank, value_count):
    """Ordinary lanes, legal for the format: linear 0 .. 2s, exponential without negative zero."""
    mixed = (np.arange(value_count) * 31 + rank * 57 + (np.arange(value_count) * (rank + 3)) % 11)
    if form.levels == "linear":
        return mixed % (2 * form.s + 1)
    sign_bit = form.largest_code + 1
    code = form.largest_code - mixed % min(form.largest_code + 1, 12)
    return np.where(code > 0, code | (mixed // 5 % 2) * sign_bit, 0)


def _operands(form, value_count):
    return [pack(_lanes(form, rank, value_count), form.bits) for rank in range(form.rank_count)]


def _lane_of_zero(form):
    return form.s if form.levels == "linear" else 0


def _equal(form, lane, value_count=3):
    return [pack(np.full(value_count, lane), form.bits)] * form.rank_count


def _scale_and_counter_cases(form):
    """Every kind of norm, tails, and every field of the counter far from zero."""
    records = []
    for name, norm in {**NORMS, "zero": np.float32(0), "infinite": INFINITY, "nan": NAN}.items():
        if np.isfinite(norm) and norm > 0:
            operands = _operands(form, 5)
        else:  # quantize wrote the code of zero
            operands = _equal(form, _lane_of_zero(form), 5)
        records.append(record(f"norm_{name}", form, _PLAIN, 1, 0, 5, operands, norm))
    for count in TAILS:
        operands = _operands(form, count)
        records.append(record(f"tail_{count}", form, _PLAIN, 2, 0, count, operands, ONE))
    places = {"first_value_2_36": (_PLAIN, 1, 2**36),
              "first_value_largest": (_PLAIN, 1, 2**44 - 64),
              "last_owner": (_PLAIN, 2, 0), "step_largest": (Call(step=2**32 - 1), 1, 0),
              "seed_largest": (Call(seed=2**64 - 1, stream_id=2**32 - 1), 1, 0)}
    for name, (call, owner, first) in places.items():
        records.append(record(name, form, call, owner, first, 33, _operands(form, 33), ONE))
    nearest = replace(form, rounding="nearest")
    records.append(record("nearest", nearest, _PLAIN, 1, 0, 33, _operands(form, 33), ONE))
    return records


def _rank_counts(levels, bits_, lanes):
    """All ranks at the largest code or just below, for many n: the top code, never more."""
    records = []
    for count in (1, 2, 3, 5, 6, 7, 11, 64, 127, 130):
        form = Format(levels, bits_, "wide", count)
        for name, lane in lanes if count < 64 else lanes[:1]:
            operands = _equal(form, lane)
            records.append(record(f"ranks_{count}_{name}", form, _PLAIN, 0, 0, 3, operands, ONE))
    return records


def _at(case, form, e, lanes):
    """One lane per rank at the four elements of e's word, the code of zero before."""
    first = e - e % 32
    value_count = e - e % 4 + 4 - first
    operands = []
    for lane in lanes:
        row = np.full(value_count, _lane_of_zero(form))
        row[-4:] = lane
        operands.append(pack(row, form.bits))
    return record(case, form, CALL, 0, first, value_count, operands, ONE)


def _halves(levels, bits_, lanes):
    """Two ranks one code apart: the mean lies half way, decided by r = 2^22 or 2^22 - 1."""
    form = Format(levels, bits_, "wide", 2)
    records = []
    for name, lane_pair in lanes:
        records.append(_at(f"enough_22_{name}", form, POWER[REENCODE][22], lane_pair))
        records.append(_at(f"short_22_{name}", form, ONES[REENCODE][22], lane_pair))
    return records


def linear(bits_):
    """Linear levels: S is an exact integer."""
    form = Format("linear", bits_, "wide", 3)
    s = form.s
    ends = (("all_largest", 2 * s), ("all_negative", 0), ("all_zero", s),
            ("all_one_below", 2 * s - 1))
    halves = (("up", (s, s + 1)), ("down", (s, s - 1)), ("near_top", (2 * s, 2 * s - 1)))
    return (_scale_and_counter_cases(form) + _rank_counts("linear", bits_, ends)
            + _halves("linear", bits_, halves))


def exponential(bits_):
    """Exponential levels: S is a float32 sum whose order shows."""
    form = Format("exponential", bits_, "wide", 3)
    C, sign = form.largest_code, form.largest_code + 1
    ends = (("all_largest", C), ("all_negative", sign | C), ("all_smallest", 1), ("all_zero", 0))
    halves = (("middle", (C, C - 1)), ("negative", (sign | C, sign | (C - 1))),
              ("to_zero", (1, 0)))
    records = (_scale_and_counter_cases(form) + _rank_counts("exponential", bits_, ends)
               + _halves("exponential", bits_, halves))
    if bits_ == 8:  # 1 + 2^-24 + 2^-24 rounds away in this order, 2^-24 + 2^-24 + 1 does not
        orders = {"large_first": (C, C - 24, C - 24), "large_last": (C - 24, C - 24, C),
                  "cancels": (C, sign | C, 1), "absorbs": (C, 1, sign | C)}
        for name, codes in orders.items():
            operands = [pack([code] * 5, bits_) for code in codes]
            records.append(record(f"order_{name}", form, _PLAIN, 0, 0, 5, operands, ONE))
    return records


def none():
    """Float32 sums whose order shows; none makes a NaN."""
    rows = {"order": [[1, 1, FLT_MAX, -0.0], [2.0**-24, -1, FLT_MAX, -0.0],
                      [2.0**-24, 1, -FLT_MAX, -0.0]],
            "edges": [[INFINITY, 0.0, DENORMAL_MIN], [1, -0.0, DENORMAL_MIN], [-FLT_MAX, 0.0, 0]]}
    records = []
    for name, values in rows.items():
        form = Format("none", 32, "wide", len(values))
        operands = [bits(np.array(x, dtype=np.float32)) for x in values]
        records.append(record(name, form, _PLAIN, 1, 0, len(values[0]), operands, ONE))
    form = Format("none", 32, "wide", 5)
    operands = [bits(generated(9, rank, 33)) for rank in range(5)]
    return [*records, record("ordinary", form, _PLAIN, 1, 32, 33, operands, ONE)]


FILES = {
    "wide_linear8.txt": (DESCRIPTION, lambda: linear(8)),
    "wide_linear4.txt": (DESCRIPTION, lambda: linear(4)),
    "wide_exponential8.txt": (DESCRIPTION, lambda: exponential(8)),
    "wide_exponential4.txt": (DESCRIPTION, lambda: exponential(4)),
    "wide_none.txt": (
        DESCRIPTION + "\nLevels none have no norm and no scale, and no sum here is NaN.", none),
}
