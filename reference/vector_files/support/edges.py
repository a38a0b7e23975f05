"""Inputs at the edges: float32 values around a norm, codes, and values made by a formula."""

import numpy as np

from gqsgd_reference.floats import FLT_MAX, float32_of

DENORMAL_MIN = float32_of(0x00000001)[()]
DENORMAL_MAX = float32_of(0x007FFFFF)[()]
FLT_MIN = float32_of(0x00800000)[()]
INFINITY = float32_of(0x7F800000)[()]
NAN = float32_of(0x7FC00000)[()]
ONE = np.float32(1)

# Exponent field and mantissa at their ends, a mantissa whose reciprocal is inexact, every range.
NORMS = {
    "one": ONE, "tenth": np.float32(0.1), "all_mantissa_bits": float32_of(0x3FFFFFFF)[()],
    "norm_127": np.float32(127), "denormal_min": DENORMAL_MIN, "denormal_odd": float32_of(0x5)[()],
    "denormal_max": DENORMAL_MAX, "exponent_field_1": FLT_MIN,
    "exponent_field_2": float32_of(0x01234567)[()],
    "exponent_field_252": float32_of(0x7E000001)[()],
    "exponent_field_253": float32_of(0x7EFEDCBA)[()],
    "exponent_field_254": float32_of(0x7F123456)[()], "flt_max": FLT_MAX,
}

# Whole words and their neighbours: tails of every kind for 4 and for 8 codes per word.
TAILS = (0, 1, 2, 3, 5, 31, 32, 33)


def both_signs(magnitudes):
    """Each value and its negative, side by side."""
    magnitudes = np.asarray(magnitudes, dtype=np.float32)
    return np.stack([magnitudes, -magnitudes], axis=1).reshape(-1)


def below(value):
    """The float32 next below."""
    return np.nextafter(np.float32(value), np.float32(0))


def edge_values(norm, fractions):
    """Zeros, the smallest numbers, the norm exactly hit, and fractions of the norm, both signs."""
    with np.errstate(under="ignore"):
        parts = [np.float32(norm) * np.float32(fraction) for fraction in fractions]
    fixed = [np.float32(0), DENORMAL_MIN, DENORMAL_MAX, FLT_MIN, norm, below(norm)]
    magnitudes = [value for value in [*fixed, *parts] if value <= norm]
    return both_signs(magnitudes)


def generated(salt, rank, value_count):
    """Values between -1 and 1 of many sizes, by a formula that every language has in integers."""
    e = np.arange(value_count, dtype=np.uint64)
    mixed = (e * 2654435761 + rank * 2246822519 + salt * 3266489917) % 2**32
    mixed ^= mixed >> np.uint64(15)
    mixed = mixed * 2246822519 % 2**32
    mixed ^= mixed >> np.uint64(13)
    signed = mixed.astype(np.uint32).view(np.int32) >> 8
    return np.ldexp(signed.astype(np.float32), -23 - 4 * (e % 8).astype(np.int32))


def spread_blocks(values, spread):
    """The values in blocks of 128 with norms of `spread` powers of two; 0 changes nothing."""
    if spread == 0:
        return values
    blocks = np.arange(len(values)) // 128
    return np.ldexp(values, -(7 * blocks % spread).astype(np.int32))


SPREAD = """\
spread: an integer S; generated value e is multiplied by 2^-(7 (e div 128) mod S)."""

GENERATED = """\
Generated values: with 32-bit unsigned arithmetic modulo 2^32
  m = e * 2654435761 + rank * 2246822519 + salt * 3266489917
  m = m XOR (m >> 15);  m = m * 2246822519;  m = m XOR (m >> 13)
  value e = ((m as signed) >> 8, arithmetic) * 2^-(23 + 4 (e mod 8)), exact in float32"""


def checksum(patterns):
    """sum of (2 k + 1) * pattern k, modulo 2^64: any one wrong pattern shows."""
    patterns = np.asarray(patterns).astype(np.uint64)
    odd = 2 * np.arange(len(patterns), dtype=np.uint64) + 1
    return int((patterns * odd).sum(dtype=np.uint64))
