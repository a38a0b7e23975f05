"""Exponential levels with sub-levels: values, the top, exact probabilities, decoding."""

from fractions import Fraction

import numpy as np
import pytest
from gqsgd_reference.dequantize import dequantize
from gqsgd_reference.floats import FLT_MAX, float32_of
from gqsgd_reference.levels import Format, exponential_value, value_over_octave
from gqsgd_reference.quantize import (exponential_codes, exponential_target, quantize,
                                      scaled_magnitudes)
from gqsgd_reference.random import Call
from gqsgd_reference.wide import decoded_levels
from gqsgd_reference.words import pack, unpack_signed

FORM = Format("exponential", 8, "wide", 3, mantissa_bits=2)
TARGET = exponential_target(127, 0, 2)
ALL_R = np.arange(2**23, dtype=np.uint64)


def test_values_are_four_equal_steps_in_each_octave():
    values = [exponential_value(code, 2) for code in range(128)]
    assert values[:9] == [0, Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), 1, Fraction(5, 4),
                          Fraction(3, 2), Fraction(7, 4), 2]
    assert values[127] == Fraction(7, 4) * 2**30
    steps = np.diff(values)
    assert all(step == max(Fraction(1, 4), Fraction(2)**(code // 4 - 3))
               for code, step in enumerate(steps))
    assert value_over_octave(127, 2) == 1.75 and value_over_octave(127, 0) == 1


@pytest.mark.parametrize("height", (0.0, 0.1, 0.25, 0.6, 1.0, 1.3, 2.9, 7.99, 2.0**20 * 1.6,
                                    1.75 * 2**30, 1.74 * 2**30))
@pytest.mark.parametrize("sign", (1, -1))
def test_codes_average_to_the_scaled_value_over_all_random_words(height, sign):
    """height: in units of value(4) = 1; a norm of T makes y = x."""
    x = np.float32(sign * height * 2.0**-63)
    negative, codes = exponential_codes(np.full(2**23, x), TARGET, TARGET, ALL_R, False, 2)
    assert np.all(np.diff(np.where(negative, -codes, codes)) >= 0) and codes.max() <= 127
    counts = np.bincount(codes)
    mean = sum(int(count) * exponential_value(code, 2) for code, count in enumerate(counts))
    exact = Fraction(float(scaled_magnitudes(x, TARGET, TARGET))) * 2**63
    lowest = int(codes.min())
    step = exponential_value(min(lowest + 1, 127), 2) - exponential_value(lowest, 2)
    assert abs(mean / 2**23 - exact) <= (step or 1) / 2**20
    assert counts.nonzero()[0].tolist() in ([lowest], [lowest, lowest + 1])


def test_nearest_goes_to_the_nearer_sub_level_and_halves_away_from_zero():
    heights = np.array([0.12, 0.125, 0.13, 1.1, 1.125, 1.13, 3.25, -1.125, -3.24, 0.0])
    values = (heights * 2.0**-63).astype(np.float32)
    r = np.full(len(values), 2**22, dtype=np.uint64)
    negative, codes = exponential_codes(values, TARGET, TARGET, r, True, 2)
    decoded = [float(exponential_value(code, 2)) for code in codes.tolist()]
    assert decoded == [0, 0.25, 0.25, 1, 1.25, 1.25, 3.5, 1.25, 3, 0]
    assert negative.tolist() == (heights < 0).tolist()


def test_the_norm_gives_the_top_code_whatever_the_mantissa_and_the_word():
    patterns = np.random.default_rng(1).integers(1, 0x7F800000, 2000, dtype=np.uint32)
    norms = float32_of(patterns)
    for r in (0, 2**23 - 1):
        words = np.full(len(norms), r, dtype=np.uint64)
        assert np.all(exponential_codes(norms, norms, TARGET, words, False, 2)[1] == 127)
        assert np.all(exponential_codes(-norms, norms, TARGET, words, False, 2)[1] == 127)


def test_decoded_levels_are_values_over_the_octave_of_the_top():
    codes = list(range(128))
    levels = decoded_levels(pack([*codes, *(128 | code for code in codes[1:])], 8), FORM, 255)
    expected = [float(exponential_value(code, 2) / 2**30) for code in codes]
    assert levels.tolist() == expected + [-value for value in expected[1:]]


@pytest.mark.parametrize("op, factor", (("mean", 1), ("sum", 3)))
def test_decoded_values_are_within_an_ulp_and_a_half_of_exact(op, factor):
    scale = np.float32(0.1)
    values = dequantize(FORM, pack(range(128), 8), scale, 128, op)
    for code, value in enumerate(values.tolist()):
        exact = exponential_value(code, 2) / exponential_value(127, 2) * Fraction(float(scale))
        assert abs(Fraction(value) - exact * factor) <= exact * factor * Fraction(3, 2**24)


def test_a_mean_is_finite_at_the_largest_scale_and_a_sum_saturates_step_by_step():
    mean = dequantize(FORM, pack([127, 255], 8), FLT_MAX, 2, "mean")
    assert np.isfinite(mean).all() and mean[0] >= FLT_MAX * np.float32(0.9999999)
    unlucky = float32_of(np.arange(0x7F000000, 0x7F800000, 12345, dtype=np.uint32))
    for scale in unlucky:
        assert np.isfinite(dequantize(FORM, pack([127], 8), scale, 1, "mean")).all()
    assert np.isinf(dequantize(FORM, pack([127], 8), FLT_MAX, 1, "sum")).all()


def test_relative_errors_stay_below_an_eighth_of_a_value():
    """A quarter of an octave above 1 is 1/4 of the value at most; one rounding stays within it."""
    x = np.random.default_rng(5).lognormal(0, 4, 4000).astype(np.float32)
    norm = x.max()
    words = quantize(FORM, Call(seed=2), 0, x, norm)
    values = dequantize(FORM, words, norm, len(x), "mean")
    ordinary = x > norm * 2.0**-30
    errors = (values - x)[ordinary] / x[ordinary]
    assert np.abs(errors).max() < 0.25 and np.square(errors).mean() < 1 / 80
    assert np.count_nonzero(unpack_signed(words, 8, len(x))[0]) == 0
