"""Norms: one number that all ranks share, sums in a fixed order (FORMAT.md section 4)."""

import numpy as np

from .floats import bits, float32_of, ieee, rounded_up

_GROUP_VALUE_COUNT = 65536
_LANE_COUNT = 1024


def rank_value(values, q):
    """v of one rank: float32 for q = inf, else float64. q: "inf", "1" or "2"."""
    if q == "inf":
        magnitudes = bits(values) & np.uint32(0x7FFFFFFF)
        return float32_of(magnitudes.max(initial=0))[()]
    wide = np.asarray(values, dtype=np.float32).astype(np.float64)
    return _ordered_sum(np.abs(wide) if q == "1" else wide * wide)


def _ordered_sum(terms):
    total = np.float64(0)
    for begin in range(0, len(terms), _GROUP_VALUE_COUNT):
        group = terms[begin:begin + _GROUP_VALUE_COUNT]
        lanes = np.zeros(_LANE_COUNT, dtype=np.float64)
        for row in range(0, len(group), _LANE_COUNT):
            part = group[row:row + _LANE_COUNT]
            lanes[:len(part)] += part
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = lanes[:half] + lanes[half:]
        total = total + lanes[0]
    return total


@ieee
def global_norm(rank_values, q, p):
    """N as a float32 from the v of all ranks, in rank order."""
    if q == "inf" and p == "inf":
        return float32_of(max(int(bits(v)) for v in rank_values))[()]
    norms = [np.sqrt(np.float64(v)) if q == "2" else np.float64(v) for v in rank_values]
    if p == "inf":
        total = np.float64(np.nan) if any(np.isnan(norms)) else np.float64(max(norms))
    else:
        total = np.float64(0)
        for v, norm in zip(rank_values, norms):
            square = np.float64(v) if q == "2" else norm * norm
            total = total + (norm if p == "1" else square)
        if p == "2":
            total = np.sqrt(total)
    return rounded_up(total)[()]
