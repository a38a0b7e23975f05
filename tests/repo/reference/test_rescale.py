"""Wide sums with scales per block, other bits down, subtractive re-encodes."""

from fractions import Fraction

import numpy as np
import pytest
from gqsgd_reference.block_norm import NAN_CODE, norms_of
from gqsgd_reference.dequantize import dequantize, largest_subtractive_step, subtractive_steps
from gqsgd_reference.floats import FLT_MAX, float32_of
from gqsgd_reference.levels import Format
from gqsgd_reference.quantize import linear_codes, scaled_magnitudes
from gqsgd_reference.random import Call, random_words
from gqsgd_reference.wide import add_wide, full_sum, rescaled
from gqsgd_reference.words import pack, unpack

CALL = Call(seed=9)


def linear(rank_count=3, bits=8, bits_down=8, block=32, rescale=True, rounding_down="random"):
    return Format("linear", bits, "wide", rank_count, block=block, bits_down=bits_down,
                  rescale=rescale, rounding_down=rounding_down)


def operands_of(form, codes):
    """Words of each rank from rows of signed codes."""
    return [pack(np.asarray(row) + form.s, form.bits) for row in codes]


def codes_of(form, words, count):
    return unpack(words, form.down.bits, count) - form.down.s


@pytest.mark.parametrize("full", (7.0, 127.0, 381.0, 127 * 1000.0, 127 * 2.0**20, 1.75 * 3, 5.0))
def test_scales_cover_the_largest_mean_by_a_part_in_128_at_most(full):
    """In exact fractions: rounded up to float32, then to 8 bits or the least code's multiples."""
    random = np.random.default_rng(1)
    norm_codes = random.integers(0x0100, 0x7F81, 400).astype(np.uint16)
    peaks = np.minimum((random.uniform(0, 1, 400)**3 * full).astype(np.float32), full)
    peaks = np.maximum(peaks, np.float32(1e-3)).astype(np.float32)
    norms = norms_of(norm_codes)
    scales, sum_norms = rescaled(peaks, norms, np.float64(full), 1)
    for N, peak, code, Z in zip(norms, peaks, scales, sum_norms):
        exact = Fraction(float(N)) * Fraction(float(peak)) / Fraction(full)
        scale = Fraction(float(norms_of(code)))
        assert scale >= exact
        in_8_bits = exact * Fraction(129, 128) * (1 + Fraction(1, 2**22))
        assert scale <= max(in_8_bits, exact + Fraction(1, 2**133) + Fraction(1, 2**148))
        in_units_of_the_sum = scale * Fraction(full) / Fraction(float(N))
        assert abs(Fraction(float(Z)) / in_units_of_the_sum - 1) <= Fraction(1, 2**24)
        assert scaled_magnitudes(peak, Z, np.float32(127)) <= 127


@pytest.mark.parametrize("rank_count", (1, 2, 3, 5, 7, 11, 100, 127, 130, 257))
def test_a_full_sum_has_the_norm_as_its_scale(rank_count):
    form = linear(rank_count)
    operands = operands_of(form, [[127, -127, 5]] * rank_count)
    words, scales = add_wide(form, CALL, 0, operands, np.uint16([0x3F81]), 3)
    assert scales.tolist() == [0x3F81]
    assert codes_of(form, words, 2).tolist() == [127, -127]


def test_the_norm_does_not_outgrow_the_largest_number():
    form = linear(1000)
    operands = operands_of(form, [[127]] * 1000)
    words, scales = add_wide(form, CALL, 0, operands, np.uint16([0x7F80]), 1)
    assert scales.tolist() == [0x7F80] and codes_of(form, words, 1).tolist() == [127]
    assert np.isfinite(dequantize(form, words, scales, 1, "mean")).all()


def test_each_block_has_its_own_scale_and_special_blocks_decide_alone():
    form = linear(2)
    codes = np.zeros((2, 160), dtype=np.int64)
    codes[:, :32], codes[0, 32:64], codes[1, 32:64] = 100, 1, 0
    codes[0, 64:96], codes[1, 64:96] = 50, -50  # cancels
    norms = np.uint16([0x3F80, 0x3F80, 0x3F80, 0, NAN_CODE])
    words, scales = add_wide(form, CALL, 1, operands_of(form, codes), norms, 160)
    assert scales[0] == 0x3F4A and scales[1] == 0x3B82  # 100 / 127 and 1 / 254, rounded up
    assert scales[2:].tolist() == [0, 0, NAN_CODE]
    assert np.all(codes_of(form, words, 160)[64:] == 0)
    values = dequantize(form, words, scales, 160, "mean").reshape(5, 32)
    assert np.all(np.isnan(values[4])) and np.all(values[2:4].view(np.uint32) == 0)
    assert np.allclose(values[0], 100 / 127, rtol=0.01)
    assert np.allclose(values[1], 1 / 254, rtol=0.01)


def test_small_means_get_finer_steps_with_a_scale_of_their_own():
    codes = np.random.default_rng(2).integers(-3, 4, (3, 3200))
    exact = codes.mean(axis=0) / 127
    errors = {}
    for rescale in (False, True):
        form = linear(rescale=rescale)
        norms = np.full(100, 0x3F80, dtype=np.uint16)
        words, scales = add_wide(form, CALL, 0, operands_of(form, codes), norms, 3200)
        values = dequantize(form, words, scales, 3200, "mean")
        errors[rescale] = np.square(values - exact).mean()
    assert errors[True] < errors[False] / 100


@pytest.mark.parametrize("bits, bits_down", ((8, 8), (4, 8), (4, 4), (8, 4)))
@pytest.mark.parametrize("block, rescale", ((0, False), (32, False), (32, True)))
@pytest.mark.parametrize("rounding_down", ("random", "subtractive"))
def test_means_are_kept_whatever_the_bits_down(bits, bits_down, block, rescale, rounding_down):
    form = linear(3, bits, bits_down, block, rescale, rounding_down)
    codes = np.tile([[3, -3, 1, 7], [1, -2, 0, 7], [2, -1, 0, 7]], (1, 8))
    norms = np.uint16([0x3F80]) if block else np.float32(1)
    runs = []
    for seed in range(150):
        call = Call(seed=seed)
        words, scales = add_wide(form, call, 1, operands_of(form, codes), norms, 32)
        runs.append(dequantize(form, words, scales, 32, "mean", call))
    runs = np.array(runs).reshape(-1, 4)
    exact = codes.mean(axis=0)[:4] / form.s
    deviation = runs.std(axis=0) / np.sqrt(len(runs))
    assert np.all(np.abs(runs.mean(axis=0) - exact) <= 6 * deviation + 1e-6)
    step = float(norms_of(scales[0]) if block else 1) / form.down.s
    assert np.abs(runs - exact).max() < step * 1.0001


@pytest.mark.parametrize("t", (0, 1, 2**22, 2**23 - 1, 3 * 2**23 + 12346, -5 * 2**23 - 4))
def test_subtractive_errors_are_uniform_over_all_random_words(t):
    """Every error from -1/2 step (left out) to +1/2 step in 2^23 places comes up once."""
    u = np.arange(2**23)
    x = np.float32(t * 2.0**-23)
    codes = linear_codes(np.full(2**23, x), np.float32(127), 127, u.astype(np.uint64))
    errors = codes * 2**23 - u + 2**22 - t
    assert np.array_equal(np.sort(errors), np.arange(-2**22 + 1, 2**22 + 1))
    # In float32 |K| above 2^24 is rounded to 24 bits.
    decoded = subtractive_steps(codes[::999], u[::999]).astype(np.float64) * 2**23 - t
    assert np.all(np.abs(decoded - errors[::999]) <= max(abs(t) + 2**23, 2**24) / 2**24)


def test_subtractive_errors_have_half_the_variance_of_random_ones():
    codes = np.random.default_rng(5).integers(-127, 128, (3, 32000))
    exact = codes.sum(axis=0) / 3
    for rounding_down, expected in (("random", 1 / 6), ("subtractive", 1 / 12)):
        form = linear(block=0, rescale=False, rounding_down=rounding_down)
        words, scale = add_wide(form, CALL, 0, operands_of(form, codes), np.float32(127), 32000)
        errors = dequantize(form, words, scale, 32000, "mean", CALL) - exact
        if rounding_down == "random":  # thirds: 0, 1/3 and 2/3 are rounded, 2/9 on two of three
            expected = 2 / 3 * 2 / 9
        assert abs(np.square(errors).mean() / expected - 1) < 0.03
        assert abs(errors.mean()) < 0.01


def test_subtractive_words_are_the_same_for_every_owner_and_random_ones_are_not():
    codes = np.random.default_rng(6).integers(-100, 100, (3, 64))
    for rounding_down, same in (("subtractive", True), ("random", False)):
        form = linear(rounding_down=rounding_down)
        words = [add_wide(form, CALL, owner, operands_of(form, codes),
                          np.uint16([0x3F80, 0x3F80]), 64)[0] for owner in (0, 1)]
        assert np.array_equal(*words) == same


def test_subtractive_u_is_draw_5_of_no_rank():
    form = linear(block=0, rescale=False, rounding_down="subtractive")
    operands = operands_of(form, [[1, 0, 0, 0, 0]] * 3)
    words, scale = add_wide(form, CALL, 2, operands, np.float32(127), 5, 64)
    u = (random_words(CALL, 5, 0, 0, 64, 5) % np.uint64(2**23)).astype(np.int64)
    codes = codes_of(form, words, 5)
    assert codes.tolist() == [1, 0, 0, 0, 0]
    values = dequantize(form, words, scale, 5, "mean", CALL, 64)
    assert values.tolist() == ((codes * 2**23 - u + 2**22) * 2.0**-23).tolist()


@pytest.mark.parametrize("top", (7, 127))
def test_a_subtractive_mean_is_finite_at_the_largest_scale(top):
    step = largest_subtractive_step(top)
    largest = Fraction(float(FLT_MAX))
    assert Fraction(float(step)) * (top + Fraction(1, 2)) <= largest
    above = np.nextafter(step, np.float32(np.inf))
    assert Fraction(float(above)) * (top + Fraction(1, 2)) > largest
    form = linear(bits_down=8 if top == 127 else 4, block=0, rescale=False,
                  rounding_down="subtractive")
    operands = operands_of(form, [[127, -127] * 500] * 3)
    words, scale = add_wide(form, CALL, 0, operands, FLT_MAX, 1000)
    assert np.isfinite(dequantize(form, words, scale, 1000, "mean", CALL)).all()
    with np.errstate(over="ignore"):
        assert np.isinf((top + np.float32(0.5)) * (FLT_MAX / np.float32(top)))  # without the bound


@pytest.mark.parametrize("rounding_down", ("random", "subtractive"))
def test_the_top_code_is_never_exceeded(rounding_down):
    """All sums of 3 ranks with the largest at each place, under many words."""
    form = linear(3, 4, 4, 0, False, rounding_down)
    codes = np.array([[7, 7, 6, -7, -7, 0]] * 3).repeat(500, axis=1)
    words, _ = add_wide(form, CALL, 0, operands_of(form, codes), np.float32(1), 3000)
    decoded = codes_of(form, words, 3000)
    assert decoded.max() == 7 and decoded.min() == -7
    assert np.all(decoded[:1000] == 7) and np.all(decoded[1500:2500] == -7)


@pytest.mark.parametrize("bits, bits_down, m", ((8, 8, 0), (8, 4, 0), (4, 8, 0), (8, 8, 2)))
@pytest.mark.parametrize("rescale", (False, True))
def test_exponential_full_sums_keep_the_top_and_the_scale(bits, bits_down, m, rescale):
    for rank_count in (1, 2, 3, 5, 7, 100, 130):
        form = Format("exponential", bits, "wide", rank_count, block=32, bits_down=bits_down,
                      rescale=rescale, mantissa_bits=m)
        top, down = form.largest_code, form.down.largest_code
        operands = [pack([top, top | (top + 1)], bits)] * rank_count
        words, scales = add_wide(form, CALL, 0, operands, np.uint16([0x3F81]), 2)
        assert unpack(words, bits_down, 2).tolist() == [down, down | (down + 1)]
        assert scales.tolist() == [0x3F81]


def test_full_sums_count_the_value_of_the_top_code():
    assert full_sum(linear(3)) == 381
    assert full_sum(Format("exponential", 8, "wide", 3)) == 3
    assert full_sum(Format("exponential", 8, "wide", 3, mantissa_bits=2)) == 5.25


def test_a_scale_just_above_a_code_takes_the_next():
    """264207 ranks: a mean of (1 + 2^-25) / 2, which float32 to nearest would take for 1/2."""
    peak, full = np.float32(16777145), np.float64(264207 * 127)
    assert peak * 2 == full + 1
    scales, _ = rescaled(np.float32([peak]), np.float32([1]), full, 1)
    assert scales.tolist() == [0x3F01]


def test_tiny_scales_stay_above_zero():
    scales, sum_norms = rescaled(np.float32([1]), float32_of([1 << 16]), np.float64(381), 1)
    assert scales.tolist() == [1] and sum_norms.tolist() == [381]
