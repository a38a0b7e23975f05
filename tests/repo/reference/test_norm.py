"""Norms: order of non-finite values, the written order of additions, and rounding up."""

from fractions import Fraction
from functools import reduce
from math import sqrt
from operator import add

import numpy as np
import pytest
from gqsgd_reference.floats import FLT_MAX, bits
from gqsgd_reference.norm import global_norm, rank_value
from vector_files.support.edges import generated
from vector_files.norms import ORDER_SALT, sparse_values

PAIRS = [(q, p) for q in ("inf", "1", "2") for p in ("inf", "1", "2")]


def norm_of(ranks, q, p):
    values = [np.array(x, dtype=np.float32) for x in ranks]
    return global_norm([rank_value(x, q) for x in values], q, p)


@pytest.mark.parametrize("q, p", PAIRS)
def test_nan_beats_infinity_beats_finite(q, p):
    assert norm_of([[1, 2], [-np.inf, 3]], q, p) == np.inf
    assert bits(norm_of([[np.inf, 2], [np.nan, 3]], q, p)) == 0x7FC00000
    assert bits(norm_of([[np.inf, np.nan], [1, 3]], q, p)) == 0x7FC00000


@pytest.mark.parametrize("q, p", PAIRS)
def test_empty_and_zero_inputs_have_norm_plus_zero(q, p):
    assert bits(norm_of([[], []], q, p)) == 0
    assert bits(norm_of([[-0.0], [0.0]], q, p)) == 0


@pytest.mark.parametrize("q, p", PAIRS)
def test_norm_of_a_single_value_is_its_magnitude(q, p):
    for magnitude in (2.0**-149, 0.1, 3.0, float(FLT_MAX)):
        assert norm_of([[-magnitude], [0]], q, p) == np.float32(magnitude)


@pytest.mark.parametrize("q, p", PAIRS)
def test_norm_of_finite_values_is_finite(q, p):
    assert norm_of([[FLT_MAX] * 3, [-FLT_MAX] * 3], q, p) == FLT_MAX


@pytest.mark.parametrize("q, p", PAIRS)
def test_norm_is_at_least_every_value_and_close_to_exact(q, p):
    x = np.random.default_rng(1).standard_normal((3, 500)).astype(np.float32)
    inner = {"inf": np.abs(x).max(1), "1": np.abs(x).sum(1, dtype=np.longdouble),
             "2": np.sqrt((x.astype(np.longdouble)**2).sum(1))}[q].astype(np.longdouble)
    exact = {"inf": inner.max(), "1": inner.sum(), "2": np.sqrt((inner**2).sum())}[p]
    norm = norm_of(x, q, p)
    assert norm >= np.abs(x).max()
    assert exact * (1 - 2.0**-50) <= norm <= exact * (1 + 2.0**-22)


def lane_sum(terms, group_value_count=65536, lane_count=1024):
    """Section 4 word by word, one float at a time."""
    total = 0.0
    for begin in range(0, len(terms), group_value_count):
        lanes = [0.0] * lane_count
        for e in range(begin, min(begin + group_value_count, len(terms))):
            lanes[e % lane_count] += terms[e]
        half = lane_count // 2
        while half:
            for k in range(half):
                lanes[k] += lanes[k + half]
            half //= 2
        total += lanes[0]
    return total


@pytest.mark.parametrize("value_count", (1, 1023, 1025, 65535, 65537, 150000))
def test_sums_are_added_in_the_written_order(value_count):
    x = generated(1, 0, value_count)
    if value_count > 1024:
        x[:1025] = sparse_values("1")[0]
    assert rank_value(x, "1") == lane_sum([abs(v) for v in x.astype(float).tolist()])
    assert rank_value(x, "2") == lane_sum([v * v for v in x.astype(float).tolist()])


def terms_of(values, q):
    terms = np.abs(values.astype(float))
    return (terms if q == "1" else terms * terms).tolist()


@pytest.mark.parametrize("q", ("1", "2"))
def test_another_order_would_show_in_the_vectors(q):
    in_lane, over_lanes = (terms_of(values, q) for values in sparse_values(q))
    for terms in (in_lane, over_lanes):
        assert lane_sum(terms) == 1 + 2.0**-52 and reduce(add, terms) == 1
    assert lane_sum(in_lane, lane_count=512) == 1
    long_values = generated(ORDER_SALT, 0, 140000)
    long_terms = terms_of(long_values, q)
    assert rank_value(long_values, q) == lane_sum(long_terms)
    for group_value_count in (32768, 131072, 2**20):
        assert lane_sum(long_terms, group_value_count) != lane_sum(long_terms)


def test_result_is_rounded_up_to_float32():
    rank_values = [np.float64(1), np.float64(2.0**-50)]
    assert global_norm(rank_values, "1", "1") == np.nextafter(np.float32(1), np.float32(2))
    assert global_norm([np.float64(1e-300)], "1", "1") == np.float32(2.0**-149)
    for v in np.random.default_rng(3).uniform(0.5, 2, 200):
        norm = global_norm([np.float64(v)], "1", "inf")
        assert Fraction(v) <= Fraction(float(norm)) < Fraction(v) * (1 + Fraction(1, 2**22))


def test_squares_of_ranks_are_not_rooted_and_squared_again():
    v = next(v for v in np.random.default_rng(5).uniform(1, 2, 100) if sqrt(v) * sqrt(v) != v)
    exact = global_norm([np.float64(v), np.float64(v)], "2", "2")
    assert exact >= np.float32(sqrt(v + v))
