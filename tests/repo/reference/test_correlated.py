"""Correlated rounding: strata of all pairs, exact marginals and covariances, shared words."""

from itertools import combinations

import numpy as np
import pytest
from gqsgd_reference.correlated import (FIELD_MODULI, field_product, strata, stratum_count,
                                        thresholds)
from gqsgd_reference.levels import Format
from gqsgd_reference.quantize import quantize
from gqsgd_reference.random import Call, counters, key, philox4x32, random_words
from gqsgd_reference.words import unpack, unpack_signed

HALF_WORD = 2**23
CALL = Call(seed=77, step=3)


def remainder(a, modulus):
    """a modulo a polynomial over GF(2), as Python integers."""
    while a.bit_length() >= modulus.bit_length():
        a ^= modulus << (a.bit_length() - modulus.bit_length())
    return a


def product_of_polynomials(a, b):
    return sum_xor(a << t for t in range(b.bit_length()) if b >> t & 1)


def sum_xor(terms):
    total = 0
    for term in terms:
        total ^= term
    return total


def all_shared(rank_count):
    """Every (a, b), as two arrays."""
    Q = stratum_count(rank_count)
    a, b = np.meshgrid(np.arange(1, Q, dtype=np.uint64), np.arange(Q, dtype=np.uint64))
    return a.reshape(-1), b.reshape(-1)


def up_counts(k, t, Q):
    """For how many of the 2^23 v a value t / 2^23 above its level goes up in stratum k."""
    least = Q * (HALF_WORD - t)  # k 2^23 + v >= least, the same as (k 2^23 + v) div Q + t >= 2^23
    return np.clip((k.astype(np.int64) + 1) * HALF_WORD - least, 0, HALF_WORD)


@pytest.mark.parametrize("m", range(1, 11))
def test_moduli_are_irreducible(m):
    modulus = FIELD_MODULI[m]
    assert modulus.bit_length() == m + 1
    assert all(remainder(modulus, divisor) for divisor in range(2, 2**(m // 2 + 1)))


@pytest.mark.parametrize("m", range(1, 11))
def test_products_are_those_of_polynomials(m):
    elements = range(2**m) if m < 6 else np.random.default_rng(m).integers(0, 2**m, 40).tolist()
    for j in elements:
        expected = [remainder(product_of_polynomials(a, j), FIELD_MODULI[m]) for a in elements]
        assert field_product(np.array(elements, dtype=np.uint64), j, m).tolist() == expected


def test_stratum_counts_are_powers_of_two_or_the_next_prime():
    primes = [p for p in range(2, 1100) if all(p % q for q in range(2, int(p**0.5) + 1))]
    for count in range(2, 1025):
        power = count & (count - 1) == 0
        assert stratum_count(count) == (count if power else min(p for p in primes if p >= count))


@pytest.mark.parametrize("rank_count", (*range(2, 18), 31, 32, 64))
def test_strata_of_two_ranks_are_every_pair_of_different_ones_once(rank_count):
    """Sharply 2-transitive: shown for every pair of ranks by running through all (a, b)."""
    Q, (a, b) = stratum_count(rank_count), all_shared(rank_count)
    k = [strata(a, b, j, rank_count) for j in range(rank_count)]
    for i, j in combinations(range(rank_count), 2):
        pairs = np.unique(k[i] * np.uint64(Q) + k[j])
        assert len(pairs) == Q * (Q - 1) and np.all(k[i] != k[j])
        assert max(k[i].max(), k[j].max()) == Q - 1


@pytest.mark.parametrize("rank_count, j", ((2, 1), (3, 2), (4, 3), (7, 5)))
def test_each_rank_alone_has_uniform_thresholds(rank_count, j):
    """All b and all 2^23 v, for one a: every r comes up exactly Q times."""
    Q = stratum_count(rank_count)
    k = strata(np.full(Q, 1 + Q // 3, dtype=np.uint64), np.arange(Q, dtype=np.uint64), j,
               rank_count)
    counts = np.zeros(HALF_WORD, dtype=np.int64)
    for stratum in k.tolist():
        counts += np.bincount((stratum * HALF_WORD + np.arange(HALF_WORD)) // Q,
                              minlength=HALF_WORD)
    assert np.all(counts == Q)


def largest_covariance(rank_count, k_of_rank, turned_ranks=()):
    """The largest over pairs and a grid of heights, in exact integers; up to a positive factor.

    turned_ranks: ranks whose signed event is that of r mirrored, as a fault.
    """
    Q, (a, b) = stratum_count(rank_count), all_shared(rank_count)
    grid = [1, HALF_WORD // 3, HALF_WORD // 2, HALF_WORD * 5 // 7, HALF_WORD - 1]
    ups = []
    for j in range(rank_count):
        k = k_of_rank(a, b, j)
        if j in turned_ranks:  # r XOR 0x7fffff lies in the mirrored stratum
            k = Q - 1 - k
        ups.append([up_counts(k, t, Q) for t in grid])
    worst = -2**62
    for one, other in combinations(ups, 2):
        for x in one:
            for y in other:
                # N sum(xy) - sum(x) sum(y) in Python integers: exact
                joint, product = int((x * y).sum()), int(x.sum()) * int(y.sum())
                worst = max(worst, len(a) * joint - product)
    return worst


@pytest.mark.parametrize("rank_count", range(2, 18))
def test_errors_of_two_ranks_are_never_positively_correlated(rank_count):
    assert largest_covariance(rank_count, lambda a, b, j: strata(a, b, j, rank_count)) <= 0


@pytest.mark.parametrize("rank_count", (3, 4, 8))
def test_the_covariance_sees_shifts_and_magnitudes_without_mirror(rank_count):
    """What the page avoids does correlate: a = 1 for all, or opposite signs without the mirror."""
    Q = stratum_count(rank_count)
    assert largest_covariance(rank_count, lambda a, b, j: (b + np.uint64(j)) % np.uint64(Q)) > 0
    plain = largest_covariance(rank_count, lambda a, b, j: strata(a, b, j, rank_count), (0,))
    assert plain > 0


@pytest.mark.parametrize("rank_count, rank", (
    (1, 0), (2, 1), (5, 3), (8, 6), (1024, 1023), (1025, 3), (1025, 1024), (1027, 1026),
    (3000, 2999)))
def test_thresholds_are_those_of_the_page_word_for_word(rank_count, rank):
    r = thresholds(CALL, rank, rank_count, 48, 40).tolist()
    group, j = rank // 1024, rank % 1024
    size = min(1024, rank_count - 1024 * group)
    v, R = (random_words(CALL, draw, c3, 0, 48, 40).tolist()
            for draw, c3 in ((0, rank), (2, group)))
    F = philox4x32(counters(CALL, 1, group, 0, [0]), key(CALL))[0].tolist()
    for place in range(40):
        own = v[place] % 2**23
        if size == 1:
            assert r[place] == own
            continue
        Q = stratum_count(size)
        A = (F[0] + (48 + place) // 16 * F[1]) % 2**32
        a, b = 1 + (A * (Q - 1) >> 32), R[place] * Q >> 32
        k = (a * j + b) % Q
        if size & (size - 1) == 0:
            m = size.bit_length() - 1
            k = remainder(product_of_polynomials(a, j), FIELD_MODULI[m]) ^ b
            assert r[place] == k * 2**(23 - m) + own % 2**(23 - m) < 2**23
        else:
            assert r[place] == (k * 2**23 + own) // Q < 2**23


def test_shared_words_carry_the_group_where_others_carry_a_rank():
    row = counters(CALL, 1, 2, 0, [3])[0].tolist()
    assert row == [3, 1 << 8, 3, 2]
    word = int(philox4x32(counters(CALL, 1, 2, 0, [3]), key(CALL))[0][0])
    assert random_words(CALL, 1, 2, 0, 48, 4).tolist()[3] == word  # R(51) turns by no byte


@pytest.mark.parametrize("rank_count", (2, 4, 8, 16, 64))
@pytest.mark.parametrize("levels, combine", (("linear", "wide"), ("exponential", "wide")))
def test_equal_values_on_a_power_of_two_of_ranks_are_rounded_evenly(rank_count, levels, combine):
    """One rank per stratum: up on floor or ceil of n t ranks, whatever the words and the sign."""
    form = Format(levels, 8, combine, rank_count, rounding="correlated")
    height = 0.3
    if levels == "linear":
        x = np.float32(7 + height)
        values, norm, low = np.tile([x, -x], 500), np.float32(127), 7
    else:
        x = np.float32((1 + height) / 2)  # between 2^-1 and 1, the codes 126 and 127
        values, norm, low = np.tile([x, -x], 500), np.float32(1), 126
    ups = np.zeros(1000, dtype=np.int64)
    for rank in range(rank_count):
        words = quantize(form, CALL, rank, values.astype(np.float32), norm)
        if levels == "linear":
            codes = np.abs(unpack(words, 8, 1000) - 127)
        else:
            codes = unpack_signed(words, 8, 1000)[1]
        ups += codes - low
    assert abs(ups - rank_count * height).max() < 1 + 1e-3


@pytest.mark.parametrize("rank_count", (2, 3, 6, 8))
def test_sums_of_equal_signs_and_of_opposite_ones_vary_less_than_independent_ones(rank_count):
    """On random heights: the variance of the summed error stays below (1/6) n squared steps."""
    heights = np.random.default_rng(3).uniform(-100, 100, (rank_count, 20000)).astype(np.float32)
    for turned in (1, -1):
        values = heights.copy()
        values[::2] *= turned
        form = Format("linear", 8, "wide", rank_count, rounding="correlated")
        errors = [unpack(quantize(form, CALL, rank, x, np.float32(127)), 8, len(x)) - 127 - x
                  for rank, x in enumerate(values)]
        per_rank = np.square(np.sum(errors, axis=0)).mean() / rank_count
        assert per_rank < 0.14  # independent: 0.167


@pytest.mark.parametrize("rank_count", (2, 3, 8, 1000))
def test_the_norm_and_zero_are_safe_from_every_threshold(rank_count):
    form = Format("linear", 8, "wide", rank_count, rounding="correlated")
    x = np.tile(np.float32([3, -3, 0]), 1000)
    for rank in (0, 1, rank_count - 1):
        codes = unpack(quantize(form, CALL, rank, x, np.float32(3)), 8, 3000) - 127
        assert codes.tolist() == [127, -127, 0] * 1000
