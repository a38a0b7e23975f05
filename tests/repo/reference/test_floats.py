"""User types: exact widening, and narrowing against exact fractions of a gap."""

from fractions import Fraction

import numpy as np
import pytest
from gqsgd_reference.floats import FLT_MAX, bits, float32_of, narrow, widen

NARROW = ("float16", "bfloat16")
ALL_PATTERNS = np.arange(2**16, dtype=np.uint16)
INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80}


def finite_patterns(dtype):
    return ALL_PATTERNS[np.isfinite(widen(ALL_PATTERNS, dtype))]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("nearest", (False, True))
def test_every_narrow_number_survives_but_negative_zero(dtype, nearest):
    patterns = finite_patterns(dtype)
    words = np.full(len(patterns), 2**32 - 1, dtype=np.uint64)
    expected = np.where(patterns == 0x8000, 0, patterns)
    assert np.array_equal(narrow(widen(patterns, dtype), dtype, words, nearest), expected)


@pytest.mark.parametrize("dtype", NARROW)
def test_random_rounding_goes_up_with_the_exact_probability(dtype):
    random = np.random.default_rng(10)
    low = random.choice(finite_patterns(dtype)[:INFINITY[dtype] - 1], 300)
    low_value, high_value = widen(low, dtype), widen(low + np.uint16(1), dtype)
    with np.errstate(under="ignore"):
        gaps = random.uniform(0, 1, 300) * (high_value - low_value)
        values = (low_value + gaps).astype(np.float32)
    for value, lo, hi, pattern in zip(values, low_value, high_value, low):
        gap = Fraction(float(hi)) - Fraction(float(lo))
        events = int((Fraction(float(value)) - Fraction(float(lo))) / gap * 2**32)  # of 2^32 words
        for word, expected in ((2**32 - events - 1, pattern), (2**32 - events, pattern + 1)):
            if 0 <= word < 2**32:
                result = narrow(np.array([value]), dtype, np.array([word], dtype=np.uint64), False)
                assert result[0] == expected, (value, word)


def test_nearest_float16_is_the_conversion_of_ieee_754():
    values = float32_of(np.random.default_rng(11).integers(0, 2**32, 20000, dtype=np.uint32))
    values = np.append(values, np.float32([65504, 65519, 65520, 2.0**-25, 3 * 2.0**-26, 1e-9]))
    with np.errstate(over="ignore", under="ignore"):
        expected = values.astype(np.float16).view(np.uint16)
    expected = np.where(expected == 0x8000, 0, expected)
    expected = np.where(np.isnan(values), 0x7E00, expected)
    assert np.array_equal(narrow(values, "float16", None, True), expected)


@pytest.mark.parametrize("dtype", NARROW)
def test_random_rounding_makes_infinity_only_above_the_largest_number(dtype):
    largest = widen(np.uint16([INFINITY[dtype] - 1]), dtype)
    above = np.nextafter(largest, np.float32(np.inf))
    for word in (0, 2**32 - 1):
        words = np.full(1, word, dtype=np.uint64)
        assert narrow(largest, dtype, words, False)[0] == INFINITY[dtype] - 1
        assert narrow(above, dtype, words, False)[0] == INFINITY[dtype]
        assert narrow(-above, dtype, words, False)[0] == INFINITY[dtype] | 0x8000


@pytest.mark.parametrize("dtype, nan", (
    ("float32", 0x7FC00000), ("float16", 0x7E00), ("bfloat16", 0x7FC0), ("float64", 0x7FF8 << 48)))
def test_nan_has_one_pattern_per_type(dtype, nan):
    values = float32_of([0x7F800001, 0xFFFFFFFF, 0x7FC00000])
    assert narrow(values, dtype, np.zeros(3, dtype=np.uint64), False).tolist() == [nan] * 3


def test_float64_inputs_round_to_nearest_even_and_overflow_to_infinity():
    half_ulp = 2.0**103
    inputs = np.array([1 + 2.0**-24, 1 + 3 * 2.0**-24, float(FLT_MAX) + half_ulp,
                       np.nextafter(float(FLT_MAX) + half_ulp, 0), 2.0**-150, 1.5 * 2.0**-149])
    values = widen(inputs.view(np.uint64), "float64")
    assert bits(values).tolist() == [0x3F800000, 0x3F800002, 0x7F800000, 0x7F7FFFFF, 0, 2]


def test_float32_and_float64_outputs_keep_every_bit():
    values = np.array([-0.0, 2.0**-149, 0.1, np.inf], dtype=np.float32)
    assert np.array_equal(narrow(values, "float32", None, False), bits(values))
    assert np.array_equal(narrow(values, "float64", None, False).view(np.float64), values)
