"""Norm codes: every code, each end of its interval; blocks and their poison."""

import numpy as np
import pytest
from gqsgd_reference.block_norm import (NAN_CODE, block_codes, largest_per_block, merge_codes,
                                        norm_codes, norms_of, per_element)
from gqsgd_reference.floats import FLT_MAX, bits, float32_of

FINITE_CODES = np.arange(0x7F81, dtype=np.uint16)


def test_a_code_is_the_least_whose_norm_is_not_below_for_every_code():
    """Patterns order as magnitudes, so the ends of each interval of patterns decide it."""
    norms = bits(norms_of(FINITE_CODES)).astype(np.int64)
    assert np.all(np.diff(norms) > 0)
    assert np.array_equal(norm_codes(norms), FINITE_CODES)
    assert np.array_equal(norm_codes(norms[:-1] + 1), FINITE_CODES[1:])


def test_norms_exceed_the_value_by_less_than_a_part_in_128():
    patterns = np.random.default_rng(1).integers(0x00800000, 0x7F800000, 10**5, dtype=np.uint32)
    values = float32_of(patterns).astype(np.float64)
    excess = norms_of(norm_codes(patterns)) / values - 1
    assert excess.min() >= 0 and 1 / 129 < excess.max() < 1 / 128


def test_the_largest_norm_is_finite_and_what_is_not_finite_is_one_code():
    assert norms_of(norm_codes([bits(FLT_MAX)])).tolist() == [FLT_MAX]
    assert norm_codes([0x7F7F0001, 0x7F7FFFFF]).tolist() == [0x7F80, 0x7F80]
    assert set(norm_codes([0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF])) == {NAN_CODE}
    assert np.all(np.isnan(norms_of([0x7F81, NAN_CODE, 0xFFFF])))


@pytest.mark.parametrize("value_count", (0, 1, 31, 32, 33, 64, 100))
def test_blocks_are_counted_from_the_first_value(value_count):
    values = np.random.default_rng(2).standard_normal(value_count).astype(np.float32)
    expected = [np.abs(values[k:k + 32]).max() for k in range(0, value_count, 32)]
    assert np.array_equal(block_codes(values, 32), norm_codes(bits(np.float32(expected))))
    norms = norms_of(block_codes(values, 32))
    assert per_element(block_codes(values, 32), 32, value_count).tolist() == [
        norms[e // 32] for e in range(value_count)]
    assert np.all(np.abs(values) <= per_element(block_codes(values, 32), 32, value_count))


def test_a_poisoned_block_is_alone():
    values = np.ones(96, dtype=np.float32)
    for poison in (np.nan, -np.nan, np.inf, -np.inf):
        values[40] = poison
        assert block_codes(values, 32).tolist() == [0x3F80, NAN_CODE, 0x3F80]


def test_the_global_norm_is_the_largest_on_any_rank_and_nan_wins():
    ranks = [np.float32([[1, 0], [3, 0]]), np.float32([[-2, 0], [np.nan, FLT_MAX]])]
    merged = merge_codes([block_codes(x.reshape(-1), 2) for x in ranks])
    assert merged.tolist() == [0x4000, NAN_CODE]


def test_the_largest_of_a_block_is_unsigned():
    assert largest_per_block(np.uint32([1, 0xFFFFFFFF, 0x80000000]), 2).tolist() == [
        0xFFFFFFFF, 0x80000000]
