"""Cases for quantize: formats at the edges of norms, values, counts, counters and thresholds."""

from dataclasses import replace

import numpy as np
from gqsgd_reference.floats import FLT_MAX, float32_of
from gqsgd_reference.levels import Format
from gqsgd_reference.quantize import quantize
from gqsgd_reference.random import QUANTIZE, Call

from .support.edges import INFINITY, NAN, NORMS, ONE, TAILS, both_signs, edge_values, generated
from .support.positions import CALL, ONES, POWER

DESCRIPTION = """
Values to packed codes (FORMAT.md section 5).
levels; bits; combine: exact, average or sum, or wide for the direct schedule, whatever the
quantizer's combine is; rank_count; combines: longest chain of reductions, 0 for wide;
rounding: independent or nearest; seed, stream_id, step, index, rank, first_value: integers.
norm, values: float32; words: hex.
enough_k and short_k: r(e) is just enough, or one too small, to reach the upper level."""

_PLAIN = Call(seed=0x0123456789ABCDEF, stream_id=2, step=3, index=4)

_LINEAR_FRACTIONS = (1 / 2, 1 / 3, 2 / 3, 1 / 127, 1 / 254, 63 / 127, 1 / 7, 1 / 14, 3 / 14,
                     6.5 / 7, 0.999, 1e-3, 2.0**-24, 2.0**-31)
_EXPONENTIAL_FRACTIONS = (*(2.0**-k for k in (1, 2, 5, 6, 7, 8, 30, 62, 63, 64, 65, 125, 126, 127)),
                          0.75, 0.999, *(1.5 * 2.0**-k for k in (5, 7, 62)), 1.25 * 2.0**-126)


def record(case, form, call, rank, first_value, norm, values):
    """One record of quantize."""
    values = np.asarray(values, dtype=np.float32)
    words = quantize(form, call, rank, values, norm, first_value)
    return {"case": case, "levels": form.levels, "bits": form.bits, "combine": form.combine,
            "rank_count": form.rank_count, "combines": form.reduction_depth,
            "rounding": form.rounding, "seed": call.seed,
            "stream_id": call.stream_id, "step": call.step, "index": call.index, "rank": rank,
            "first_value": first_value, "norm": np.float32(norm), "values": values, "words": words}


def _norm_cases(form, fractions):
    """All norms, also those that are zero or not finite; values above the norm are clamped."""
    records = [
        record(f"norm_{name}", form, _PLAIN, 1, 64 * place, norm, edge_values(norm, fractions))
        for place, (name, norm) in enumerate(NORMS.items())]
    records.append(record("norm_zero", form, _PLAIN, 1, 0, np.float32(0), [0.0, -0.0, 0, 0, 0]))
    # A norm of one from elsewhere than these values: larger ones saturate.
    larger = both_signs([1.0000001, 2, FLT_MAX])
    records.append(record("above_norm", form, _PLAIN, 1, 0, ONE, larger))
    poison = [1, NAN, -INFINITY, 0, INFINITY]
    records.append(record("norm_infinite", form, _PLAIN, 1, 0, INFINITY, poison))
    records.append(record("norm_nan", form, _PLAIN, 1, 0, NAN, poison))
    nearest = replace(form, rounding="nearest")
    ties = [both * step / form.largest_code for step in (0.5, 1.5, 2.5) for both in (1, -1)]
    records.append(record("nearest", nearest, _PLAIN, 1, 0, ONE,
                          [*edge_values(ONE, fractions), *ties, *generated(2, 0, 16)]))
    return records


def _counter_cases(form):
    """Tails, and every field of the counter far from zero."""
    x = generated(3, 1, 64)
    records = [record(f"tail_{count}", form, _PLAIN, 0, 0, ONE, x[:count]) for count in TAILS]
    for first in (32, 2**36 - 32, 2**36, 2**44 - 64):
        records.append(record(f"first_value_{first}", form, _PLAIN, 3, first, ONE, x))
    calls = {"seed_largest": Call(seed=2**64 - 1), "stream_largest": Call(stream_id=2**32 - 1),
             "step_largest": Call(step=2**32 - 1), "index_largest": Call(index=2**16 - 1)}
    for name, call in calls.items():
        records.append(record(name, form, call, 0, 0, ONE, x[:9]))
    most = replace(form, rank_count=2**20, reduction_depth=20)
    return [*records, record("rank_largest", most, _PLAIN, 2**20 - 1, 0, ONE, x[:9])]


def _at(case, form, e, norm, value):
    """`value` in all four lanes of the word of element e, zeros before."""
    first = e - e % 32
    values = np.zeros(e - e % 4 + 4 - first, dtype=np.float32)
    values[-4:] = value
    return record(case, form, CALL, 0, first, norm, values)


def _linear_thresholds(form):
    """norm = s makes y = x: t = (2^23 - 2^k) / 2^23 goes up if r >= 2^k; and the ties of q."""
    norm, records = np.float32(form.s), []
    for k in (0, 1, 7, 15, 21, 22):
        value = np.float32((2**23 - 2**k) / 2**23)
        for name, e in (("enough", POWER[QUANTIZE][k]), ("short", ONES[QUANTIZE][k])):
            records.append(_at(f"{name}_{k}", form, e, norm, value))
            records.append(_at(f"negative_{name}_{k}", form, e, norm, np.float32(value - 1)))
    ties = {"half": 0.5, "one_and_half": 1.5, "minus_half": -0.5, "minus_one_and_half": -1.5}
    for name, e in (("largest_r", ONES[QUANTIZE][23]), ("zero_r", ONES[QUANTIZE][0]),
                    ("r_1", POWER[QUANTIZE][0])):
        for tie_name, tie in ties.items():
            value = np.float32(tie * 2.0**-23)
            records.append(_at(f"tie_{tie_name}_{name}", form, e, norm, value))
    return records


def _exponential_thresholds(form):
    """norm = 2^j makes y exact: mantissa 2^23 - 2^k carries if r' >= 2^k."""
    records = []
    for k in (0, 1, 7, 15, 21, 22):
        positive = float32_of(0x3F800000 + 2**23 - 2**k)
        negative = float32_of(0xBF800000 + 2**k)
        e_power, e_ones = POWER[QUANTIZE][k], ONES[QUANTIZE][k]
        for name, e in ((f"enough_{k}", e_power), (f"short_{k}", e_ones)):
            records.append(_at(name, form, e, np.float32(8), positive))
        for name, e in ((f"negative_enough_{k}", e_ones), (f"negative_short_{k}", e_power)):
            records.append(_at(name, form, e, np.float32(8), negative))
    return records


def _linear(bits):
    top = 2**(bits - 1) - 1
    average = Format("linear", bits, "average", 4, 3)
    records = _norm_cases(average, _LINEAR_FRACTIONS) + _counter_cases(average)
    records += _linear_thresholds(average)
    x = both_signs([1, 0.5, 0.1, 0.7])
    for count in [c for c in (1, 2, 3, 4, 5, 7, 8, 9, 16, 42, 43, 63, 64, 127) if c <= top]:
        form = Format("linear", bits, "exact", count, count - 1)
        records.append(record(f"exact_{count}_ranks", form, _PLAIN, 0, 0, ONE, x))
    wide = Format("linear", bits, "wide", 200)
    return [*records, record("wide_200_ranks", wide, _PLAIN, 199, 0, ONE, x)]


def _exponential_8():
    form = Format("exponential", 8, "sum", 4, 3)
    records = _norm_cases(form, _EXPONENTIAL_FRACTIONS) + _counter_cases(form)
    records += _exponential_thresholds(form)
    x = edge_values(ONE, _EXPONENTIAL_FRACTIONS)
    for combines in (0, 1, 2, 7, 63, 64, 65, 1000):
        form = Format("exponential", 8, "sum", combines + 1, combines)
        records.append(record(f"headroom_{combines}_combines", form, _PLAIN, 0, 0, ONE, x))
    wide = Format("exponential", 8, "wide", 200)
    return [*records, record("wide_200_ranks", wide, _PLAIN, 199, 0, ONE, x)]


def _exponential_4():
    form = Format("exponential", 4, "average", 4, 3)
    records = _norm_cases(form, _EXPONENTIAL_FRACTIONS) + _counter_cases(form)
    wide = Format("exponential", 4, "wide", 200)
    records.append(record("wide_200_ranks", wide, _PLAIN, 199, 0, ONE, generated(4, 0, 33)))
    return records + _exponential_thresholds(form)


FILES = {
    "quantize_linear8.txt": (DESCRIPTION, lambda: _linear(8)),
    "quantize_linear4.txt": (DESCRIPTION, lambda: _linear(4)),
    "quantize_exponential8.txt": (DESCRIPTION, _exponential_8),
    "quantize_exponential4.txt": (DESCRIPTION, _exponential_4),
}
