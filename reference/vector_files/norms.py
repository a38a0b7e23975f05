"""Cases for norms of every (q, p), with sums long enough to show their order."""

import numpy as np
from gqsgd_reference.floats import FLT_MAX
from gqsgd_reference.norm import global_norm, rank_value

from .support.edges import (DENORMAL_MAX, DENORMAL_MIN, FLT_MIN, GENERATED, INFINITY, NAN, below,
                    both_signs, generated)

DESCRIPTION = f"""
Norms (FORMAT.md section 4).
q, p: inf, 1 or 2; rank_count: integer.
rank_0, rank_1, ..: the float32 values of each rank; or, where they are generated,
value_count and salt: integers.
rank_values: v of each rank, float32 (8 digits) if q = inf, else float64 (16 digits).
norm: the global norm, float32.
{GENERATED}"""

# The least salt for which a sum over 140,000 values tells groups of 65,536 from other groups.
ORDER_SALT = 74

_PAIRS = [(q, p) for q in ("inf", "1", "2") for p in ("inf", "1", "2")]


def _answer(values, q, p):
    local = [rank_value(x, q) for x in values]
    return {"rank_values": np.array(local), "norm": global_norm(local, q, p)}


def _given(case, values, q, p):
    values = [np.array(x, dtype=np.float32) for x in values]
    ranks = {f"rank_{rank}": x for rank, x in enumerate(values)}
    keys = {"case": case, "q": q, "p": p, "rank_count": len(values)}
    return {**keys, **ranks, **_answer(values, q, p)}


def _generated(case, rank_count, value_count, salt, q, p):
    values = [generated(salt, rank, value_count) for rank in range(rank_count)]
    return {"case": case, "q": q, "p": p, "rank_count": rank_count, "value_count": value_count,
            "salt": salt, **_answer(values, q, p)}


def _inputs():
    """Where maxima and sums could go wrong: nothing there, signs, denormals, overflow, order."""
    one = np.float32(1)
    return {
        "no_values": [[], []], "zeros": [[0, -np.float32(0)], [0, 0]], "one_rank": [[3, -4]],
        "negative_is_largest": [[1, -2], [-5, 4]], "second_rank_empty_of_signal": [[1, 2], [0, 0]],
        "denormals": [[DENORMAL_MIN, -DENORMAL_MIN], [DENORMAL_MAX, 0], [-FLT_MIN, below(FLT_MIN)]],
        "denormal_min_alone": [[DENORMAL_MIN], [0]],
        "flt_max": [both_signs([FLT_MAX]), both_signs([FLT_MAX])],
        "one_lane_absorbs": [[one, np.float32(2.0**-53), np.float32(2.0**-53)], [2.0**-30, 0, one]],
        "rounds_up": [[one, np.float32(2.0**-40)], [2.0**-60, 0]],
    }


def _poisoned():
    """NaN above infinity above finite, wherever it stands."""
    return {
        "infinity": [[1, -INFINITY], [FLT_MAX, 2]], "nan": [[1, 2], [NAN, 3]],
        "nan_and_infinity": [[INFINITY, 1], [2, NAN]], "negative_nan": [[-NAN, 1], [0, 0]],
    }


def sparse_values(q):
    """Two small terms count beside a one only if they meet before it, as these two ranks make them.

    The first rank's meet inside lane 0, before lane 512 joins; the second's when lane 513 joins
    lane 1, before lane 0 does.
    """
    small = np.float32(0.75 * 2.0**-53 if q == "1" else 0.75**0.5 * 2.0**-26.5)
    ranks = np.zeros((2, 1025), dtype=np.float32)
    ranks[0, [0, 1024, 512]] = small, small, 1
    ranks[1, [1, 513, 0]] = small, small, 1
    return list(ranks)


def norms():
    """All pairs on small inputs; long generated ones around lanes of 1024 and groups of 65,536."""
    records = []
    for q, p in _PAIRS:
        for name, values in {**_inputs(), **_poisoned()}.items():
            if q == "inf" or name not in _poisoned():
                records.append(_given(f"{name}_{q}_{p}", values, q, p))
        if q != "inf":
            # The pattern of a NaN that a sum makes belongs to the machine: only the norm is pinned.
            for name, values in _poisoned().items():
                record = _given(f"{name}_{q}_{p}", values, q, p)
                del record["rank_values"]
                records.append(record)
    records.append(_given("order_in_and_over_lanes_1", sparse_values("1"), "1", "1"))
    records.append(_given("order_in_lanes_2", sparse_values("2")[:1], "2", "1"))
    for value_count in (1023, 1024, 1025, 65535, 65536, 65537, 140000):
        for q in ("1", "2"):
            case = f"order_{value_count}_{q}"
            records.append(_generated(case, 2, value_count, ORDER_SALT, q, "2"))
    for q, p in _PAIRS:
        records.append(_generated(f"ranks_7_{q}_{p}", 7, 100, 12, q, p))
    return records


FILES = {"norm.txt": (DESCRIPTION, norms)}
