"""Dequantize: against exact fractions, special scales, saturation at the largest finite number."""

from fractions import Fraction

import numpy as np
import pytest
from gqsgd_reference.dequantize import dequantize
from gqsgd_reference.floats import FLT_MAX, bits, float32_of
from gqsgd_reference.levels import Format
from gqsgd_reference.words import pack

FORMS = (Format("linear", 8, "exact", 3, 2), Format("linear", 8, "average", 3, 2),
         Format("linear", 4, "wide", 5), Format("exponential", 8, "sum", 3, 2),
         Format("exponential", 8, "wide", 5), Format("exponential", 4, "average", 3, 2))


def lanes_of(form):
    if form.levels == "exponential":
        return [lane for lane in range(2**form.bits) if lane != 2**(form.bits - 1)]
    return list(range(2 * form.s * (form.rank_count if form.combine == "exact" else 1) + 1))


def exact_value(form, lane, scale, op):
    """Section 8 without rounding."""
    count = form.rank_count
    if form.levels == "linear":
        top = count * form.s if form.combine == "exact" else form.s
        return Fraction(lane - top, top) * scale * (count if op == "sum" else 1)
    code, sign = lane & form.largest_code, -1 if lane > form.largest_code else 1
    if code == 0:
        return Fraction(0)
    if form.combine == "sum":
        factor = Fraction(1, count if op == "mean" else 1)
    else:
        factor = Fraction(count if op == "sum" else 1)
    return sign * scale * factor * Fraction(2)**(code - form.largest_code + form.headroom)


@pytest.mark.parametrize("op", ("sum", "mean"))
@pytest.mark.parametrize("form", FORMS)
def test_values_are_within_an_ulp_and_a_half_of_exact(form, op):
    lanes, scale = lanes_of(form), np.float32(0.1)
    values = dequantize(form, pack(lanes, form.bits), scale, len(lanes), op)
    assert values.dtype == np.float32
    for lane, value in zip(lanes, values.tolist()):
        exact = exact_value(form, lane, Fraction(float(scale)), op)
        assert abs(Fraction(value) - exact) <= abs(exact) * Fraction(3, 2**24) + Fraction(1, 2**149)


@pytest.mark.parametrize("form", FORMS)
def test_scales_zero_and_not_finite_decide_alone(form):
    lanes = lanes_of(form)
    words = pack(lanes, form.bits)
    assert np.all(bits(dequantize(form, words, np.float32(0), len(lanes), "sum")) == 0)
    for scale in (np.float32(np.inf), np.float32(np.nan), -np.float32(np.nan)):
        assert np.all(bits(dequantize(form, words, scale, len(lanes), "mean")) == 0x7FC00000)


def test_code_of_the_norm_after_headroom_is_the_norm():
    for reduction_depth in (0, 1, 7, 64, 99):
        form = Format("exponential", 8, "sum", reduction_depth + 1, reduction_depth)
        words = pack([127 - form.headroom], 8)
        assert dequantize(form, words, np.float32(0.1), 1, "sum") == np.float32(0.1)


def test_the_step_of_a_sum_stays_finite():
    form = Format("linear", 8, "wide", 1000)
    values = dequantize(form, pack([form.s, form.s + 1], 8), FLT_MAX, 2, "sum")
    assert values[0] == 0 and values[1] == FLT_MAX


def test_levels_none_have_one_nan():
    words = np.array([0x7F800001, 0xFFFFFFFF, 0x7FC00000, 0x3F800000], dtype=np.uint32)
    form = Format("none", 32, "sum", 3, 2)
    for op, one in (("sum", np.float32(1)), ("mean", np.float32(1) / np.float32(3))):
        values = dequantize(form, words, None, 4, op)
        assert bits(values).tolist() == [0x7FC00000] * 3 + [int(bits(one))]


def test_the_largest_code_of_every_norm_decodes_to_the_norm_within_an_ulp():
    """Down to norms whose step is a normal number; below, the step itself has few bits."""
    patterns = np.random.default_rng(9).integers(8 << 23, 254 << 23, 300, dtype=np.uint32)
    form = Format("linear", 8, "average", 3, 2)
    for pattern in patterns.tolist():
        value = dequantize(form, pack([2 * form.s], 8), float32_of(pattern)[()], 1, "mean")
        assert abs(int(bits(value)[0]) - pattern) <= 1
