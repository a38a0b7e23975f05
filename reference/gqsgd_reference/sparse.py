"""Lists of codes that are not zero, and their sums (FORMAT.md section 14)."""

import numpy as np

from .dequantize import linear_step
from .floats import NAN_PATTERN, float32_of, ieee
from .words import unpack, word_count

GAP_COUNT = 2**24  # gaps are below this, and a filler stands for so many zero codes


def zero_lane(form):
    """The lane of a zero code."""
    return form.s if form.levels == "linear" else 0


def select(form, words, value_count):
    """The entries of a rank's codes, uint32."""
    lanes = unpack(words, form.bits, value_count)
    elements = np.flatnonzero(lanes != zero_lane(form))
    gaps = np.diff(elements, prepend=-1) - 1
    fillers, gaps = np.divmod(gaps, GAP_COUNT)
    own = (gaps << 8 | lanes[elements]).astype(np.uint32)
    filler = np.uint32((GAP_COUNT - 1) << 8 | zero_lane(form))
    return np.insert(own, np.repeat(np.arange(len(own)), fillers), filler)


def lanes_of(form, entries, value_count):
    """The lanes that sparse entries stand for."""
    entries = np.asarray(entries, dtype=np.int64)
    lanes = np.full(value_count, zero_lane(form), dtype=np.int64)
    lanes[np.cumsum((entries >> 8) + 1) - 1] = entries & 255
    return lanes


def entries_pay(form, ranks_entries, value_count):
    """Whether sparse entries are sent rather than words."""
    longest = max(len(entries) for entries in ranks_entries)
    return form.rank_count * longest <= 2 * word_count(value_count, form.bits)


@ieee
def add_entries(form, ranks_entries, norm, value_count, op):
    """float32 values of the sum or the mean."""
    if not np.isfinite(norm):
        return np.full(value_count, float32_of(NAN_PATTERN["float32"]))
    if norm == 0:
        return np.zeros(value_count, dtype=np.float32)
    levels = [_levels(form, lanes_of(form, entries, value_count)) for entries in ranks_entries]
    total = np.zeros(value_count, dtype=levels[0].dtype)
    for rank_levels in levels:
        total = total + rank_levels
    top = np.float32(form.rank_count * (form.s if form.levels == "linear" else 1))
    multiplier = form.rank_count if op == "sum" else 1
    return total.astype(np.float32) * linear_step(np.float64(norm), multiplier, top)


def _levels(form, lanes):
    """Codes of linear levels, or float32 levels of exponential ones with the norm as 1."""
    if form.levels == "linear":
        return lanes - form.s
    codes = lanes & form.largest_code
    magnitudes = np.where(codes > 0, np.ldexp(np.float32(1), codes - form.largest_code),
                          np.float32(0)).astype(np.float32)
    return np.where(lanes > form.largest_code, -magnitudes, magnitudes)
