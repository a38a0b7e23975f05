"""Quantize: the norm hits the top code, rounding is unbiased, nothing leaves its range."""

from fractions import Fraction

import numpy as np
import pytest
from gqsgd_reference.floats import FLT_MAX, float32_of
from gqsgd_reference.levels import Format, exponential_value
from gqsgd_reference.quantize import (exponential_codes, exponential_target, linear_codes, quantize,
                                      scaled_magnitudes)
from gqsgd_reference.random import Call
from gqsgd_reference.words import pack, unpack, unpack_signed

ALL_MANTISSAS = float32_of(np.arange(2**23, dtype=np.uint32) + 0x3F800000)
ALL_R = np.arange(2**23, dtype=np.uint64)
NORMS = [float32_of(pattern)[()] for pattern in (
    1, 2, 5, 0x7FFFFF, 0x800000, 0x1234567, 0x3DCCCCCD, 0x3F800000, 0x7E000001, 0x7F123456,
    0x7F7FFFFF)]
TARGETS = [*(np.float32(s) for s in (1, 2, 7, 31, 42, 63, 127)),
           *(exponential_target(C, h) for C, h in ((127, 0), (127, 3), (127, 64), (7, 0)))]


@pytest.mark.parametrize("target", TARGETS)
def test_the_norm_gives_exactly_the_target_for_every_mantissa(target):
    assert np.all(scaled_magnitudes(ALL_MANTISSAS, ALL_MANTISSAS, target) == target)


@pytest.mark.parametrize("target", TARGETS)
def test_the_norm_gives_exactly_the_target_in_every_binade(target):
    mantissas = np.random.default_rng(2).integers(0, 2**23, 64, dtype=np.uint32)
    patterns = (np.arange(255, dtype=np.uint32)[:, None] << np.uint32(23)) + mantissas
    norms = float32_of(patterns.reshape(-1)[1:])
    norms = norms[norms > 0]
    assert np.all(scaled_magnitudes(norms, norms, target) == target)


@pytest.mark.parametrize("norm", NORMS)
def test_scaled_values_are_close_to_exact_and_never_above_the_target(norm):
    fractions = np.random.default_rng(4).uniform(0, 1, 100).astype(np.float32)
    values = np.minimum(fractions * norm, norm)
    y = scaled_magnitudes(values, norm, np.float32(127))
    assert np.all(y <= 127)
    for value, result in zip(values.tolist(), y.tolist()):
        exact = Fraction(value) / Fraction(float(norm)) * 127
        assert abs(Fraction(result) - exact) <= exact * Fraction(3, 2**24) + Fraction(1, 2**40)


@pytest.mark.parametrize("value", (0.0, 1.0, -1.0, 0.3, -0.3, 1e-5, -1e-8, 0.999999))
def test_linear_codes_average_to_the_scaled_value(value):
    x, norm, s = np.float32(value), np.float32(1), 127
    codes = linear_codes(np.full(2**23, x), norm, s, ALL_R)
    t = float(np.copysign(scaled_magnitudes(x, norm, np.float32(s)), x))
    assert abs(codes).max() <= s
    assert np.all(np.diff(codes) >= 0)  # the code never falls as r grows
    assert abs(Fraction(int(codes.sum()), 2**23) - Fraction(t)) <= Fraction(1, 2**24)


@pytest.mark.parametrize("largest_code, headroom, value", (
    (127, 0, 0.0), (127, 0, 3e-39), (127, 0, -0.3), (127, 64, -1.0), (127, 64, 2.0**-64),
    (127, 3, 1.0), (7, 0, 0.3), (7, 0, -0.01)))
def test_exponential_codes_average_to_the_scaled_value(largest_code, headroom, value):
    x, norm = np.float32(value), np.float32(1)
    target = exponential_target(largest_code, headroom)
    negative, codes = exponential_codes(np.full(2**23, x), norm, target, ALL_R, False)
    y = Fraction(float(scaled_magnitudes(x, norm, target))) * 2**63  # in smallest levels
    assert codes.min() >= 0 and codes.max() <= largest_code - headroom
    assert np.all(negative == (value < 0))
    assert np.all(np.diff(np.where(negative, -codes, codes)) >= 0)  # as r grows
    counts = np.bincount(codes)
    mean = sum(Fraction(int(count), 2**23) * exponential_value(code)
               for code, count in enumerate(counts))
    step = max(Fraction(1), Fraction(exponential_value(int(codes.max()))) / 2)
    assert abs(mean - y) <= step / 2**23


def test_signed_rounding_is_the_floor_of_the_signed_value_plus_u():
    """r XOR 0x7fffff on a magnitude decides like r on the negative value."""
    random = np.random.default_rng(6)
    x = (random.integers(-127 * 2**20, 127 * 2**20, 10000) * 2.0**-20).astype(np.float32)
    r = random.integers(0, 2**23, 10000, dtype=np.uint64)
    codes = linear_codes(x, np.float32(127), 127, r)
    mirrored = linear_codes(-x, np.float32(127), 127, r ^ np.uint64(0x7FFFFF))
    assert np.array_equal(codes, -mirrored)


@pytest.mark.parametrize("form", (
    Format("linear", 8, "exact", 3, 2), Format("linear", 4, "average", 3, 2),
    Format("exponential", 8, "sum", 3, 2), Format("exponential", 4, "average", 3, 2)))
def test_words_of_zero_and_non_finite_norms_hold_only_zero(form):
    values = np.array([1, -1, np.nan, np.inf, -np.inf], dtype=np.float32)
    zero = form.s if form.levels == "linear" else 0
    for norm in (0, np.inf, np.nan):
        words = quantize(form, Call(seed=1), 0, values, np.float32(norm))
        assert np.array_equal(words, pack([zero] * 5, form.bits))


@pytest.mark.parametrize("reduction_depth", (0, 1, 7, 64, 65, 5000))
def test_the_norm_stands_at_the_top_less_the_headroom(reduction_depth):
    form = Format("exponential", 8, "sum", reduction_depth + 1, reduction_depth)
    x = np.array([0.1, -0.1] * 20, dtype=np.float32)
    negative, codes = unpack_signed(quantize(form, Call(), 0, x, np.float32(0.1)), 8, 40)
    assert set(codes.tolist()) == {127 - min(reduction_depth, 64)}
    assert negative.tolist() == [False, True] * 20


def test_values_above_the_norm_get_the_top_code():
    form = Format("linear", 8, "average", 2, 1)
    x = np.array([FLT_MAX, -FLT_MAX, 1.5], dtype=np.float32)
    lanes = unpack(quantize(form, Call(seed=2), 0, x, np.float32(1)), 8, 3)
    assert (lanes - form.s).tolist() == [127, -127, 127]


def test_nearest_rounds_half_up_whatever_the_words_are():
    form = Format("linear", 8, "average", 2, 1, rounding="nearest")
    x = np.array([0.5, -0.5, 1.5, -1.5, 2.49, -2.51], dtype=np.float32)
    for seed in range(5):
        lanes = unpack(quantize(form, Call(seed=seed), 0, x, np.float32(127)), 8, 6)
        assert (lanes - form.s).tolist() == [1, 0, 2, -1, 2, -3]


def test_exact_sums_need_a_level_per_rank():
    levels = {1: 127, 2: 63, 42: 3, 63: 2, 64: 1, 127: 1}
    for rank_count, s in levels.items():
        assert Format("linear", 8, "exact", rank_count, rank_count - 1).s == s
    with pytest.raises(ValueError):
        Format("linear", 8, "exact", 128, 127)
    with pytest.raises(ValueError):
        Format("linear", 4, "exact", 8, 7)


def test_tail_lanes_are_zero_and_lanes_lie_in_element_order():
    assert pack([1, 2, 3, 4, 5], 8).tolist() == [0x04030201, 0x00000005]
    assert pack([1, 2, 3, 4, 5, 6, 7, 8, 9], 4).tolist() == [0x87654321, 0x00000009]
    assert unpack(pack(range(9), 4), 4, 9).tolist() == list(range(9))


def test_levels_none_carry_the_float32_bits():
    x = np.array([-0.0, 1.0, np.inf], dtype=np.float32)
    words = quantize(Format("none", 32, "sum"), Call(), 0, x, np.float32(1))
    assert words.tolist() == [0x80000000, 0x3F800000, 0x7F800000]
