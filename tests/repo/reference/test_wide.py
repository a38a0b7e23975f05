"""Wide sums: the top stays the top, zero stays zero, the mean is kept, order is fixed."""

from fractions import Fraction

import numpy as np
import pytest
from gqsgd_reference.levels import Format
from gqsgd_reference.quantize import exponential_target, linear_codes, scaled_magnitudes
from gqsgd_reference.random import Call
from gqsgd_reference.wide import add_wide, decoded_levels
from gqsgd_reference.words import pack, unpack

FORMS = (("linear", 8), ("linear", 4), ("exponential", 8), ("exponential", 4))


def top_lane(form):
    return 2 * form.s if form.levels == "linear" else form.largest_code


@pytest.mark.parametrize("levels, bits", FORMS)
def test_all_ranks_at_the_top_give_the_top_and_the_norm(levels, bits):
    norm = np.float32(0.1)
    for rank_count in (1, 2, 3, 5, 7, 11, 64, 100, 127, 130, 257):
        form = Format(levels, bits, "wide", rank_count)
        operands = [pack([top_lane(form)] * 9, bits)] * rank_count
        words, scale = add_wide(form, Call(seed=rank_count), 0, operands, norm, 9)
        assert unpack(words, bits, 9).tolist() == [top_lane(form)] * 9
        assert scale == norm


def test_the_largest_sum_hits_the_top_for_any_number_of_ranks():
    counts = np.append(np.arange(1, 5001), [2**17 + 1, 2**20 - 1, 2**20])
    for s in (7, 127):
        largest = (counts * s).astype(np.float32)
        assert np.all(scaled_magnitudes(largest, largest, np.float32(s)) == s)
    for target in (exponential_target(127, 0), exponential_target(7, 0)):
        sums = counts.astype(np.float32)
        assert np.all(scaled_magnitudes(sums, sums, target) == target)


@pytest.mark.parametrize("levels, bits", FORMS)
def test_zero_stays_zero_whatever_the_word(levels, bits):
    form = Format(levels, bits, "wide", 3)
    zero = form.s if levels == "linear" else 0
    words, _ = add_wide(form, Call(seed=4), 1, [pack([zero] * 1000, bits)] * 3, np.float32(1), 1000)
    assert np.all(unpack(words, bits, 1000) == zero)


def test_linear_re_encode_keeps_the_mean():
    """Sums of 3 ranks at 4 bits, over all 2^23 random words."""
    r = np.arange(2**23, dtype=np.uint64)
    for total in (-20, 1, 7):
        codes = linear_codes(np.full(2**23, np.float32(total)), np.float32(21), 7, r)
        mean, exact = Fraction(int(codes.sum()), 2**23), Fraction(total, 3)
        assert abs(mean - exact) <= Fraction(1, 2**23) + abs(exact) / 2**22


def test_decoded_levels_are_powers_of_two_below_one():
    form = Format("exponential", 8, "wide", 2)
    words = pack([0, 1, 127, 0x80 | 127, 0x80 | 1], 8)
    assert decoded_levels(words, form, 5).tolist() == [0, 2.0**-126, 1, -1, -(2.0**-126)]


def test_exponential_sums_are_float32_in_rank_order():
    """What cancels first leaves a small third operand visible; what cancels last absorbed it."""
    def nonzero_codes(lanes):
        form = Format("exponential", 8, "wide", 3)
        operands = [pack([lane] * 500, 8) for lane in lanes]
        words, _ = add_wide(form, Call(seed=6), 0, operands, np.float32(1), 500)
        return np.count_nonzero(unpack(words, 8, 500))

    assert nonzero_codes((127, 0x80 | 127, 2)) > 0
    assert nonzero_codes((127, 2, 0x80 | 127)) == 0


@pytest.mark.parametrize("levels, bits", FORMS)
def test_norms_that_are_not_finite_reach_the_scale(levels, bits):
    form = Format(levels, bits, "wide", 2)
    zero = form.s if levels == "linear" else 0
    for norm in (np.inf, np.nan, 0):
        words, scale = add_wide(form, Call(), 0, [pack([zero], bits)] * 2, np.float32(norm), 1)
        assert unpack(words, bits, 1).tolist() == [zero]
        assert scale == norm or (np.isnan(norm) and np.isnan(scale))
