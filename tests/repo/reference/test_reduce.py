"""Reductions in code form: exact expectations by the functions' own thresholds, and ranges."""

from fractions import Fraction

import numpy as np
import pytest
from gqsgd_reference.levels import Format, exponential_value
from gqsgd_reference.random import Call
from gqsgd_reference.reduce import average_exponential, average_lanes, reduce, sum_exponential
from gqsgd_reference.words import pack, pack_signed, unpack, unpack_signed

WEIGHTS = [*((a, b) for a in range(1, 9) for b in range(1, 9)), (15, 1), (31, 33), (1000, 1),
           (2**19, 2**19), (2**20 - 1, 1), (1, 2**20 - 1), (699051, 349525)]


def first_word_that_changes(function, word_count, case_count):
    """For every case the least word at which `function(words)` differs from its value at word 0.

    function: elementwise, with at most one change as words grow; word_count where there is none.
    """
    at_zero = function(np.zeros(case_count, dtype=np.uint64))
    low = np.zeros(case_count, dtype=np.uint64)  # known not to have changed
    high = np.full(case_count, word_count, dtype=np.uint64)  # changed, or beyond the last word
    while np.any(high - low > 1):
        middle = (low + high) // np.uint64(2)
        changed = function(middle) != at_zero
        high, low = np.where(changed, middle, high), np.where(changed, low, middle)
    return high


def all_pairs(codes):
    """(negative, code) of both operands, every pair of signed codes, zero without a sign."""
    signed = [sign * code for code in codes for sign in ((1, -1) if code else (1,))]
    pairs = np.array([(a, b) for a in signed for b in signed])
    return [(side < 0, np.abs(side)) for side in pairs.T]


def value_of(signed_code):
    """A signed code in units of the smallest level, as an exact integer."""
    return exponential_value(abs(signed_code)) * (-1 if signed_code < 0 else 1)


def signed(result):
    negative, codes = result
    return np.where(negative, -codes, codes)


def test_exact_sums_never_carry_into_the_next_lane():
    for rank_count in (1, 2, 3, 5, 42, 127):
        s = Format("linear", 8, "exact", rank_count, rank_count - 1).s
        assert 2 * s * rank_count <= 255
        form = Format("linear", 8, "exact", rank_count, rank_count - 1)
        codes = np.array([-s, s, 0, s, -s, 1, -1])
        words = pack(codes + s, 8)
        for merged in range(1, rank_count):
            words = reduce(form, Call(), 0, merged, (merged, 1), words, pack(codes + s, 8), 7)
        assert np.array_equal(unpack(words, 8, 7), rank_count * (codes + s))


@pytest.mark.parametrize("top", (14, 254))
def test_linear_average_has_the_exact_expectation(top):
    lanes = sorted({0, 1, 2, top // 2 - 1, top // 2, top // 2 + 1, top - 1, top})
    lane_a, lane_b = np.array([(a, b) for a in lanes for b in lanes]).T
    for w_a, w_b in WEIGHTS:
        W, exact = w_a + w_b, w_a * lane_a + w_b * lane_b
        function = lambda R: average_lanes(lane_a, lane_b, w_a, w_b, R)
        low, high = function(np.uint64(0)), function(np.uint64(2**32 - 1))
        assert low.min() >= 0 and high.max() <= top
        assert np.all(high - low == (exact % W != 0)) and np.array_equal(low, exact // W)
        ups = 2**32 - first_word_that_changes(function, 2**32, len(exact)).astype(np.int64)
        # |P(up) - remainder / W| < 2^-32
        assert np.all(np.abs(ups * W - (exact % W) * 2**32) < W)


def test_exponential_sum_has_the_exact_expectation_for_all_pairs():
    a, b = all_pairs(range(128))
    function = lambda R: signed(sum_exponential(a, b, 127, R))
    low = function(np.zeros(len(a[0]), dtype=np.uint64))
    high = function(np.full(len(a[0]), 2**32 - 1, dtype=np.uint64))
    first = first_word_that_changes(function, 2**32, len(low))
    for code_a, code_b, at_zero, at_end, count in zip(
            signed(a).tolist(), signed(b).tolist(), low.tolist(), high.tolist(), first.tolist()):
        exact = value_of(code_a) + value_of(code_b)
        if abs(exact) > value_of(127):
            assert abs(at_zero) == 127 and abs(at_end) == 127  # saturated
            continue
        result = count * value_of(at_zero) + (2**32 - count) * value_of(at_end)
        larger = exponential_value(max(abs(code_a), abs(code_b)))
        step = larger if code_a * code_b > 0 else larger // 2  # up from the larger one, or down
        # Exact to a distance of 32 codes; beyond, the event of probability 2^-33 is left out.
        assert 2 * abs(result - exact * 2**32) <= step, (code_a, code_b)


def test_exponential_sum_is_zero_or_no_smaller_than_the_smaller_operand():
    a, b = all_pairs((0, 1, 2, 3, 40, 126, 127))
    for R in (0, 2**31, 2**32 - 1):
        _, codes = sum_exponential(a, b, 127, np.full(len(a[0]), R, dtype=np.uint64))
        cancels = (a[1] == b[1]) & (a[0] != b[0])
        assert np.all(codes[cancels] == 0)
        smaller, larger = np.minimum(a[1], b[1]), np.maximum(a[1], b[1])
        floor = np.where(smaller == 0, larger, smaller)
        assert np.all(codes[~cancels] >= floor[~cancels])


@pytest.mark.parametrize("w_a, w_b", WEIGHTS)
def test_exponential_average_has_the_exact_expectation_for_all_pairs(w_a, w_b):
    a, b = all_pairs(range(8))
    function = lambda R: signed(average_exponential(a, b, w_a, w_b, 7, R))
    low = function(np.zeros(len(a[0]), dtype=np.uint64))
    high = function(np.full(len(a[0]), 2**23 - 1, dtype=np.uint64))
    assert np.all(np.abs(low) <= np.maximum(a[1], b[1]))
    assert np.all(np.abs(high) <= np.maximum(a[1], b[1]))
    assert np.all(low <= high)  # the signed result never falls as r grows
    first = first_word_that_changes(function, 2**23, len(low))
    for code_a, code_b, at_zero, at_end, count in zip(
            signed(a).tolist(), signed(b).tolist(), low.tolist(), high.tolist(), first.tolist()):
        exact = Fraction(w_a * value_of(code_a) + w_b * value_of(code_b), w_a + w_b)
        result = Fraction(count * value_of(at_zero) + (2**23 - count) * value_of(at_end), 2**23)
        step = max(exponential_value(max(abs(at_zero), abs(at_end), 2)) // 2, 1)
        assert abs(result - exact) < Fraction(step, 2**23), (code_a, code_b)


def test_averages_with_equal_operands_change_nothing():
    lanes = np.arange(255)
    a = (lanes % 2 == 1, lanes % 8)
    for R in (0, 12345, 2**32 - 1):
        words = np.full(255, R, dtype=np.uint64)
        assert np.array_equal(average_lanes(lanes, lanes, 3, 4, words), lanes)
        assert np.array_equal(average_exponential(a, a, 3, 4, 7, words)[1], a[1])


@pytest.mark.parametrize("form", (
    Format("linear", 8, "average", 3, 2), Format("linear", 4, "average", 3, 2),
    Format("exponential", 8, "sum", 3, 2), Format("exponential", 4, "average", 3, 2)))
def test_words_of_a_reduction_keep_tails_and_signs_legal(form):
    random = np.random.default_rng(8)
    for value_count in (1, 2, 3, 5, 31, 33):
        if form.levels == "linear":
            operands = [pack(random.integers(0, 2 * form.s + 1, value_count), form.bits)
                        for _ in range(2)]
        else:
            C = form.largest_code
            operands = [pack_signed(random.integers(0, 2, value_count) == 1,
                                    random.integers(0, C + 1, value_count), form.bits)
                        for _ in range(2)]
        words = reduce(form, Call(seed=3), 1, 1, (2, 1), *operands, value_count)
        lanes = unpack(words, form.bits, len(words) * 32 // form.bits)
        assert np.all(lanes[value_count:] == 0)
        if form.levels == "exponential":
            negative, codes = unpack_signed(words, form.bits, value_count)
            assert not np.any(negative & (codes == 0))


def test_pairings_without_a_reduction_are_refused_by_name():
    for levels, bits, combine in (("exponential", 4, "sum"), ("exponential", 8, "average"),
                                  ("exponential", 8, "exact"), ("linear", 8, "sum")):
        with pytest.raises(ValueError, match=combine):
            Format(levels, bits, combine, 2, 1)
