"""Cases for user types: inputs to float32, and results to float16, bfloat16 and float64."""

import numpy as np
from gqsgd_reference.floats import FLT_MAX, PATTERN_TYPE, float32_of, narrow, widen
from gqsgd_reference.random import OUTPUT, Call, random_words

from .support.edges import DENORMAL_MAX, DENORMAL_MIN, FLT_MIN, INFINITY, NAN, both_signs, generated
from .support.positions import CALL, ONES, POWER

WIDEN = """
User values as float32 (FORMAT.md section 3). A NaN in them is the quiet one without payload.
dtype: float16, bfloat16 or float64; input: patterns of that type; values: float32."""

NARROW = """
float32 results as user values (FORMAT.md section 9), rounded by R(e) of draw 7, or nearest.
dtype; rounding: independent or nearest; seed, stream_id, step, index, first_value: integers.
values: float32; output: patterns of dtype."""

# Zeros, denormals, normals and infinity at their ends, NaN; the sign is the top bit.
_HALF = (0x0000, 0x0001, 0x0002, 0x03FF, 0x0400, 0x0401, 0x1234, 0x3BFF, 0x3C00, 0x3C01, 0x7BFE,
         0x7BFF, 0x7C00)
_BFLOAT = (0x0000, 0x0001, 0x007F, 0x0080, 0x0081, 0x1234, 0x3F7F, 0x3F80, 0x3F81, 0x7F7E, 0x7F7F,
           0x7F80)


def _doubles():
    """Ties of float32 and their neighbours: at one, at the smallest denormal, at overflow."""
    overflow = float(FLT_MAX) + 2.0**103
    ties = [1 + 2.0**-24, 1 + 3 * 2.0**-24, 2.0**-150, 3 * 2.0**-150, 2.0**-127 + 2.0**-150,
            overflow]
    values = [0.0, 1.0, 0.1, 5e-324, float(DENORMAL_MIN), float(FLT_MIN), float(FLT_MAX), 1e300,
              np.inf]
    for tie in ties:
        values += [np.nextafter(tie, 0), tie, np.nextafter(tie, np.inf)]
    return both_signs_64(values)


def both_signs_64(magnitudes):
    """float64 patterns of values and of their negatives."""
    values = np.array(magnitudes, dtype=np.float64)
    return np.stack([values, -values], axis=1).reshape(-1).view(np.uint64)


def widened():
    """Every kind of number of each type, both signs."""
    inputs = {
        "float16": [p | sign for p in _HALF for sign in (0, 0x8000)] + [0x7E00],
        "bfloat16": [p | sign for p in _BFLOAT for sign in (0, 0x8000)] + [0x7FC0],
        "float64": [*_doubles(), 0x7FF8000000000000]}
    records = []
    for dtype, patterns in inputs.items():
        patterns = np.array(patterns, dtype=PATTERN_TYPE[dtype])
        records.append({"case": dtype, "dtype": dtype, "input": patterns,
                        "values": widen(patterns, dtype)})
    return records


def _record(case, dtype, nearest, call, first_value, values):
    values = np.asarray(values, dtype=np.float32)
    words = random_words(call, OUTPUT, 0, 0, first_value, len(values))
    return {"case": f"{dtype}_{case}", "dtype": dtype,
            "rounding": "nearest" if nearest else "independent", "seed": call.seed,
            "stream_id": call.stream_id, "step": call.step, "index": call.index,
            "first_value": first_value, "values": values,
            "output": narrow(values, dtype, words, nearest)}


# Largest finite number, smallest denormal, and half a unit in the last place of 1.
_LIMITS = {"float16": (65504.0, 2.0**-24, 2.0**-11),
           "bfloat16": (float(float32_of(0x7F7F0000)), 2.0**-133, 2.0**-8),
           "float64": (float(FLT_MAX), 2.0**-149, 2.0**-23)}


def _edge_values(dtype):
    """Exact values, ties, neighbours of ties, and both sides of every limit of the type."""
    largest, least, half_ulp = _LIMITS[dtype]
    tie_of_infinity = {"float16": 65520.0, "bfloat16": float(float32_of(0x7F7F8000))}
    centres = [largest, tie_of_infinity.get(dtype, largest), least, least / 2, 1 + half_ulp,
               1 + 3 * half_ulp, 1 - half_ulp, 2.0**-14, 2.0**-14 - 2.0**-25, 2.0**-126]
    values = [0, DENORMAL_MIN, DENORMAL_MAX, FLT_MIN, 1, np.float32(0.1), FLT_MAX, INFINITY]
    with np.errstate(under="ignore", over="ignore"):
        for centre in np.array(centres).astype(np.float32):
            values += [np.nextafter(centre, np.float32(0)), centre,
                       np.nextafter(centre, INFINITY)]
    return [*both_signs(values), NAN]


def _thresholds(dtype, dropped_bits):
    """1 + j / 2^dropped ulp where R is just enough to round up, and just not."""
    records = []
    for k in range(32 - dropped_bits, 32):
        lacking = 2**(k - 32 + dropped_bits)  # float32 ulps that the value lacks to the upper one
        values = np.full(4, float32_of(0x3F800000 + 2**dropped_bits - lacking))
        values[1::2] *= -1
        for name, e in (("enough", POWER[OUTPUT][k]), ("short", ONES[OUTPUT][k])):
            records.append(_record(f"{name}_{k}", dtype, False, CALL, e - e % 4, values))
    return records


def narrowed():
    """Edges both ways of rounding, thresholds hit exactly, ordinary values far into a call."""
    call = Call(seed=77, stream_id=3, step=9, index=2)
    records = []
    for dtype in ("float16", "bfloat16", "float64"):
        for nearest in (False, True):
            name = "nearest" if nearest else "random"
            records.append(_record(f"edges_{name}", dtype, nearest, call, 0, _edge_values(dtype)))
    for dtype, dropped_bits in (("float16", 13), ("bfloat16", 16)):
        records += _thresholds(dtype, dropped_bits)
        records.append(_record("ordinary", dtype, False, call, 2**36, generated(1, 0, 33)))
    return records


FILES = {"widen.txt": (WIDEN, widened), "narrow.txt": (NARROW, narrowed)}
