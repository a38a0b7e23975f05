"""The rotation: its matrix, its inverse, its signs, and what padding, zeros and poison become."""

import numpy as np
import pytest
from gqsgd_reference.floats import FLT_MAX, bits
from gqsgd_reference.random import Call, counters, key, philox4x32
from gqsgd_reference.rotation import hadamard, padded_count, rotate, rotate_back, sign_flips

CALL = Call(seed=3, step=1)


def integers(value_count, largest, seed=1):
    """Whole numbers small enough that no operation rounds."""
    return np.random.default_rng(seed).integers(-largest, largest + 1, value_count)


def test_h_is_the_matrix_of_sylvester():
    k = np.arange(1024)
    parity = k[:, None] & k
    for shift in (8, 4, 2, 1):
        parity ^= parity >> shift
    matrix = 1 - 2 * (parity & 1)
    x = integers(2048, 1000)
    expected = np.concatenate([matrix @ x[:1024], matrix @ x[1024:]])
    assert np.array_equal(hadamard(x.astype(np.float32)), expected)


@pytest.mark.parametrize("value_count", (1, 128, 640, 768, 896, 1024 + 896))
def test_last_rotations_are_the_binary_digits_of_what_is_left(value_count):
    x = integers(value_count, 1000).astype(np.float32)
    y = rotate(CALL, x)
    padded = np.append(x, np.zeros(len(y) - value_count))
    signed = np.where(sign_flips(CALL, 0, len(y)) > 0, -padded, padded)
    begin = 0
    for length in (1024, 512, 256, 128):
        if len(y) & length == 0:
            continue
        # 1/32 of an orthonormal rotation, or 1/32 / sqrt(2) where that is no power of two
        scale = 2.0 ** -np.ceil(5 + np.log2(length) / 2)
        k = np.arange(length)
        ones = np.vectorize(lambda word: bin(word).count("1"))(k[:, None] & k)
        matrix = scale * (1 - 2 * (ones % 2))
        assert np.array_equal(y[begin:begin + length], matrix @ signed[begin:begin + length])
        begin += length
    assert begin == len(y)


def test_signs_are_the_bits_of_the_words_of_the_page():
    for first_value in (0, 1024, 2**36 + 1024):
        flips = sign_flips(CALL, first_value, 1024)
        for place in range(0, 1024, 37):
            e = first_value + place
            word = int(philox4x32(counters(CALL, 6, 0, 0, [e // 128]), key(CALL))[0][e // 32 % 4])
            assert int(flips[place]) == (word >> e % 32 & 1) << 31


@pytest.mark.parametrize("value_count", (1, 5, 129, 600, 1023, 1024, 1025, 3000))
@pytest.mark.parametrize("first_value", (0, 1024, 2**36))
def test_back_after_forth_is_exact_where_nothing_rounds(value_count, first_value):
    x = integers(value_count, 2**13).astype(np.float32)
    y = rotate(CALL, x, first_value)
    assert len(y) == padded_count(value_count) == -(-value_count // 128) * 128
    assert np.array_equal(bits(rotate_back(CALL, y, value_count, first_value)), bits(x + 0))


def test_lengths_shrink_by_32_forth():
    x = np.random.default_rng(4).standard_normal(4096).astype(np.float32)
    y = rotate(CALL, x)
    assert np.isclose(np.linalg.norm(y) * 32, np.linalg.norm(x), rtol=1e-6)


def test_an_outlier_is_spread_over_all_values():
    x = np.zeros(1024, dtype=np.float32)
    x[77] = 1024
    assert set(np.abs(rotate(CALL, x)).tolist()) == {1}


@pytest.mark.parametrize("seed", range(5))
def test_nothing_overflows_forth_nor_exceeds_the_largest_value(seed):
    signs = np.random.default_rng(seed).choice([-1, 1], 2048).astype(np.float32)
    assert np.abs(rotate(CALL, signs * FLT_MAX)).max() <= FLT_MAX
    # All of one sign after the signs of the rotation: one value takes all.
    aligned = np.where(sign_flips(CALL, 0, 1024) > 0, -FLT_MAX, FLT_MAX)
    assert rotate(CALL, aligned).tolist() == [FLT_MAX] + [0] * 1023


@pytest.mark.parametrize("poison", (np.nan, np.inf, -np.inf))
def test_poison_reaches_all_values_of_its_rotation_and_no_other(poison):
    for place, begin, end in ((1030, 1024, 2048), (2050, 2048, 2560), (2600, 2560, 2688)):
        x = np.ones(2688, dtype=np.float32)
        x[place] = poison
        finite = np.isfinite(rotate(CALL, x))
        assert not finite[begin:end].any()
        assert finite[:begin].all() and finite[end:].all()


def test_two_infinities_leave_nothing_finite():
    x = np.zeros(1024, dtype=np.float32)
    x[[5, 900]] = np.inf, -np.inf
    assert not np.isfinite(rotate(CALL, x)).any()


def test_zeros_come_back_as_positive_zeros():
    assert set(bits(rotate_back(CALL, np.zeros(1024, dtype=np.float32), 1000)).tolist()) == {0}
    assert sign_flips(CALL, 0, 1000).any()


def test_the_way_back_does_not_depend_on_where_a_range_begins():
    y = integers(3072, 100).astype(np.float32)
    whole = rotate_back(CALL, y, 3072)
    assert np.array_equal(rotate_back(CALL, y[1024:], 2048, 1024), whole[1024:])
    assert not np.array_equal(rotate_back(CALL, y[1024:], 2048, 0), whole[1024:])
