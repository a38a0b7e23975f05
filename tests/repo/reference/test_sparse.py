"""Sparse entries: their meaning, when they are sent, their sums."""

from fractions import Fraction

import numpy as np
import pytest
from gqsgd_reference.allreduce import Request, allreduce
from gqsgd_reference.floats import FLT_MAX, bits, float32_of
from gqsgd_reference.header import Header, header_words
from gqsgd_reference.levels import Format
from gqsgd_reference.random import Call
from gqsgd_reference.sparse import GAP_COUNT, add_entries, entries_pay, lanes_of, select
from gqsgd_reference.words import pack
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_files.headers import _QUANTIZER

FORMATS = (("linear", 8, "exact"), ("linear", 4, "average"), ("exponential", 8, "sum"),
           ("exponential", 4, "average"))


def form_of(levels, bits_, rank_count=3):
    return Format(levels, bits_, "wide", rank_count)


def some_lanes(form, value_count, share, seed):
    """Lanes of which about `share` are no zero codes."""
    random = np.random.default_rng(seed)
    zero = form.s if form.levels == "linear" else 0
    others = random.integers(1, form.largest_code + 1, value_count)
    others = zero + others * random.choice([-1, 1], value_count) if zero else \
        others | random.choice([0, form.largest_code + 1], value_count)
    return np.where(random.random(value_count) < share, others, zero)


@pytest.mark.parametrize("levels, bits_, _combine", FORMATS)
@given(value_count=st.integers(0, 300), share=st.sampled_from((0, 0.02, 0.5, 1)),
       seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_a_list_stands_for_its_lanes(levels, bits_, _combine, value_count, share, seed):
    form = form_of(levels, bits_)
    lanes = some_lanes(form, value_count, share, seed)
    entries = select(form, pack(lanes, bits_), value_count)
    zero = form.s if levels == "linear" else 0
    assert len(entries) == np.count_nonzero(lanes != zero)
    assert np.array_equal(lanes_of(form, entries, value_count), lanes)


@pytest.mark.parametrize("gap, entry_count", (
    (GAP_COUNT - 1, 1), (GAP_COUNT, 2), (GAP_COUNT + 1, 2), (2 * GAP_COUNT - 1, 2),
    (2 * GAP_COUNT, 3)))
@pytest.mark.parametrize("levels", ("linear", "exponential"))
def test_long_gaps_take_fillers(levels, gap, entry_count):
    form = form_of(levels, 4)
    zero = form.s if levels == "linear" else 0
    lanes = np.full(gap + 1, zero, dtype=np.uint8)
    lanes[gap] = zero + 1
    entries = select(form, pack(lanes, 4), len(lanes))
    assert len(entries) == entry_count
    assert np.array_equal(lanes_of(form, entries, len(lanes)), lanes)


def test_entries_pay_up_to_the_bytes_of_direct():
    form = form_of("linear", 8)  # 12 values: 3 words; 3 ranks of 2 entries take 2 * 3 words
    assert entries_pay(form, [[0] * 2, [], [0]], 12)
    assert not entries_pay(form, [[0] * 3, [], []], 12)
    assert entries_pay(form, [[], [], []], 0)


def exact_value(form, lane):
    """A lane in units of the norm."""
    if form.levels == "linear":
        return Fraction(int(lane) - form.s, form.s)
    code = int(lane) & form.largest_code
    sign = -1 if lane > form.largest_code else 1
    return sign * Fraction(2)**(code - form.largest_code) if code else Fraction(0)


@pytest.mark.parametrize("levels, bits_, _combine", FORMATS)
@pytest.mark.parametrize("op", ("sum", "mean"))
@pytest.mark.parametrize("norm", (1.0, 0.1, 3e38, 1e-30))
def test_sums_are_exact_but_for_rounding(levels, bits_, _combine, op, norm):
    form = form_of(levels, bits_)
    ranks = [some_lanes(form, 200, 0.3, seed) for seed in range(3)]
    ranks_entries = [select(form, pack(lanes, bits_), 200) for lanes in ranks]
    values = add_entries(form, ranks_entries, np.float32(norm), 200, op)
    for place, lanes in enumerate(zip(*ranks)):
        levels_here = [exact_value(form, lane) for lane in lanes]
        unit = Fraction(float(np.float32(norm))) / (3 if op == "mean" else 1)
        exact = sum(levels_here) * unit
        if abs(exact) > Fraction(float(FLT_MAX)):
            assert np.isinf(values[place]) or abs(values[place]) >= 0.99 * FLT_MAX
            continue
        allowed = sum(map(abs, levels_here)) * unit * Fraction(4, 2**23) + Fraction(1, 2**149)
        assert abs(Fraction(float(values[place])) - exact) <= allowed


def test_the_top_of_a_mean_is_finite_and_exact_cancellation_is_positive_zero():
    for levels, bits_, _ in FORMATS:
        form = form_of(levels, bits_, 7)
        top = 2 * form.s if levels == "linear" else form.largest_code
        bottom = 0 if levels == "linear" else 2 * form.largest_code + 1
        zero = form.s if levels == "linear" else 0
        tops = [select(form, pack([top, top], bits_), 2)] * 7
        assert np.all(add_entries(form, tops, FLT_MAX, 2, "mean") >= FLT_MAX * np.float32(0.999999))
        assert np.all(np.isfinite(add_entries(form, tops, FLT_MAX, 2, "mean")))
        pair = [select(form, pack([lane], bits_), 1) for lane in (top, bottom)]
        rest = [select(form, pack([zero], bits_), 1)] * 5
        assert bits(add_entries(form, pair + rest, np.float32(1), 1, "sum"))[0] == 0


@pytest.mark.parametrize("levels, bits_, combine", FORMATS)
def test_dense_data_gives_the_bits_of_direct(levels, bits_, combine):
    random = np.random.default_rng(3)
    values = [bits(random.standard_normal(500).astype(np.float32)) for _ in range(3)]
    results = [allreduce(Request(schedule, levels, bits_, combine, call=Call(seed=3)), values)
               for schedule in ("sparse", "direct")]
    assert np.array_equal(results[0].values, results[1].values)
    assert np.array_equal(results[0].words, results[1].words)
    assert max(results[0].entry_counts) > 500 // 6


@pytest.mark.parametrize("levels, bits_, combine", FORMATS)
def test_few_large_values_come_through_without_a_second_rounding(levels, bits_, combine):
    """Each value is the norm itself: every code is exact, and so is the mean of the codes."""
    values = [np.zeros(1000, dtype=np.float32) for _ in range(4)]
    for rank, x in enumerate(values):
        x[100 * rank] = (-1)**rank * 8
        x[999] = 8
    result = allreduce(Request("sparse", levels, bits_, combine), [bits(x) for x in values])
    assert len(result.words) == 0 and result.entry_counts == (2,) * 4
    assert np.allclose(float32_of(result.values), np.mean(values, axis=0), rtol=2**-22, atol=0)


def test_results_are_unbiased_over_seeds():
    random = np.random.default_rng(5)
    values = [np.concatenate([[64.0], 5 * random.standard_normal(20), np.zeros(379)])
              .astype(np.float32) for _ in range(3)]
    runs = []
    for seed in range(300):
        request = Request("sparse", "linear", 4, "average", call=Call(seed=seed))
        result = allreduce(request, [bits(x) for x in values])
        assert len(result.words) == 0
        runs.append(float32_of(result.values).astype(np.float64))
    deviation = np.std(runs, axis=0) / np.sqrt(len(runs))
    distance = np.abs(np.mean(runs, axis=0) - np.mean(values, axis=0))
    assert np.all(distance <= 5.5 * deviation + 1e-5)


@pytest.mark.parametrize("fields", (
    {"levels": "none", "bits": 32, "combine": "sum"}, {"block": 32}, {"rotate": "hadamard"},
    {"block": 32, "rescale": True}, {"rounding_down": "subtractive"}, {"bits_down": 4},
    {"levels": "exponential", "combine": "sum", "mantissa_bits": 2}))
def test_formats_without_sparse_entries_are_refused(fields):
    with pytest.raises(ValueError, match="sparse"):
        Request(**{"schedule": "sparse", "levels": "linear", "bits": 8, "combine": "exact",
                   **fields})


def test_the_second_header_holds_the_number_of_entries():
    header = Header(2, "float32", "mean", "sparse", 1000, _QUANTIZER, 0, 0, 0, 0, 0, 65536,
                    2**33 + 7)
    assert header_words(header)[14:16] == (7, 2) and header_words(header)[3] >> 24 == 7
