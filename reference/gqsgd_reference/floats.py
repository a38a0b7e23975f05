"""Bit patterns, and user values to and from them (FORMAT.md sections 3 and 9); no codes, no norms.

User values are kept as patterns (uint16, uint32, uint64), because NumPy has no bfloat16 and because
a pattern cannot be changed by an implicit conversion.
"""

import numpy as np

FLT_MAX = np.float32(np.finfo(np.float32).max)
NAN_PATTERN = {"float32": 0x7FC00000, "float16": 0x7E00, "bfloat16": 0x7FC0,
               "float64": 0x7FF8000000000000}
PATTERN_TYPE = {"float32": np.uint32, "float16": np.uint16, "bfloat16": np.uint16,
                "float64": np.uint64}
_MANTISSA_BITS = {"float16": 10, "bfloat16": 7}
_LEAST_EXPONENT = {"float16": -14, "bfloat16": -126}  # of a normal number
_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80}

# Overflow to infinity and underflow to a denormal or zero are results here, not accidents.
ieee = np.errstate(over="ignore", under="ignore", invalid="ignore")


def bits(values):
    """The patterns of float32 values."""
    return np.asarray(values, dtype=np.float32).view(np.uint32)


def float32_of(patterns):
    """The float32 values of patterns."""
    return np.asarray(patterns, dtype=np.uint32).view(np.float32)


@ieee
def rounded_up(values):
    """The least float32 not below each float64 >= 0; what is finite stays finite."""
    values = np.asarray(values, dtype=np.float64)
    rounded = values.astype(np.float32)
    below = rounded.astype(np.float64) < values
    rounded = np.where(below, np.nextafter(rounded, np.float32(np.inf)), rounded)
    rounded = np.where(np.isfinite(values) & np.isinf(rounded), FLT_MAX, rounded)
    return np.where(np.isnan(values), float32_of(NAN_PATTERN["float32"]), rounded)


@ieee
def widen(patterns, dtype):
    """User values as float32: exact for narrower types, nearest even for float64."""
    patterns = np.asarray(patterns, dtype=PATTERN_TYPE[dtype])
    if dtype == "float32":
        return patterns.view(np.float32)
    if dtype == "bfloat16":
        return (patterns.astype(np.uint32) << np.uint32(16)).view(np.float32)
    source = np.float16 if dtype == "float16" else np.float64
    return patterns.view(source).astype(np.float32)


@ieee
def narrow(values, dtype, random_words, nearest):
    """float32 results as patterns of the user's type.

    random_words: R(e) of draw 7, one per value; used for float16 and bfloat16 without `nearest`.
    """
    values = np.asarray(values, dtype=np.float32)
    if dtype == "float32":
        patterns = bits(values).copy()
    elif dtype == "float64":
        patterns = values.astype(np.float64).view(np.uint64).copy()
    else:
        patterns = _narrow_magnitudes(np.abs(values), dtype, random_words, nearest)
        # A zero result is +0.0 whatever was rounded to it.
        negative = np.signbit(values) & (patterns != 0)
        patterns = np.where(negative, patterns | 0x8000, patterns)
    patterns = patterns.astype(PATTERN_TYPE[dtype])
    patterns[np.isnan(values)] = NAN_PATTERN[dtype]
    return patterns


def _narrow_magnitudes(magnitudes, dtype, random_words, nearest):
    """Patterns of non-negative values; what NaN gives here is replaced by the caller."""
    regular = np.isfinite(magnitudes) & (magnitudes > 0)
    a = np.where(regular, magnitudes, np.float32(1)).astype(np.float64)  # float64 holds all exactly
    exponent = np.frexp(a)[1].astype(np.int64) - 1
    spacing = np.maximum(exponent, _LEAST_EXPONENT[dtype]) - _MANTISSA_BITS[dtype]
    in_units = np.ldexp(a, -spacing.astype(np.int32))
    lo = np.floor(in_units)
    fraction = in_units - lo
    least_spacing = _LEAST_EXPONENT[dtype] - _MANTISSA_BITS[dtype]
    # Neighbouring numbers have neighbouring patterns, across binades too.
    pattern = lo.astype(np.int64) + ((spacing - least_spacing) << _MANTISSA_BITS[dtype])
    if nearest:
        up = (fraction > 0.5) | ((fraction == 0.5) & (lo % 2 == 1))
        too_large = np.zeros(len(a), dtype=bool)
    else:
        up = np.floor(fraction * 2.0**32).astype(np.uint64) + random_words >= 2**32
        too_large = (pattern + (fraction > 0)) >= _INFINITY[dtype]
    pattern = np.minimum(pattern + up, _INFINITY[dtype])
    pattern = np.where(too_large | np.isinf(magnitudes), _INFINITY[dtype], pattern)
    return np.where(magnitudes == 0, 0, pattern)
