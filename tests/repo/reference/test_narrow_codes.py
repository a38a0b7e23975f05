"""Levels bf16 and fp16: codes are numbers, means are kept, sums stay finite."""

from fractions import Fraction

import numpy as np
import pytest
from gqsgd_reference import narrow_codes
from gqsgd_reference.allreduce import Request, allreduce
from gqsgd_reference.dequantize import dequantize
from gqsgd_reference.floats import bits
from gqsgd_reference.levels import Format
from gqsgd_reference.quantize import quantize
from gqsgd_reference.random import Call
from gqsgd_reference.segments import allgather, reduce_scatter
from gqsgd_reference.wide import add_wide
from gqsgd_reference.words import pack, unpack
from vector_files.narrow_codes import quantizes, sums

LEVELS = ("bf16", "fp16")


def form(levels, rank_count=1, rounding="independent"):
    return Format(levels, 16, "wide", rank_count, 0, rounding)


def quantized(levels, values, seed=0, rounding="independent"):
    values = np.asarray(values, dtype=np.float32)
    return quantize(form(levels, 1, rounding), Call(seed=seed), 0, values, None)


def test_every_code_is_its_number():
    patterns = np.arange(65536)
    words = pack(patterns, 16)
    half = dequantize(form("fp16"), words, None, 65536, "sum")
    np.testing.assert_array_equal(half, patterns.astype(np.uint16).view(np.float16))
    bfloat = dequantize(form("bf16"), words, None, 65536, "sum")
    finite = ~np.isnan(bfloat)
    assert np.all(bits(bfloat)[finite] == patterns[finite] << 16)
    assert np.count_nonzero(~finite) == 2 * 127


@pytest.mark.parametrize("levels", LEVELS)
def test_roundings_go_both_ways_and_keep_the_mean(levels):
    value, draws = np.float32(1 + 2.0**-13), 1 << 19
    codes = unpack(quantized(levels, np.full(draws, value)), 16, draws)
    low, high = sorted(set(codes.tolist()))
    assert high == low + 1
    up = Fraction(int(np.count_nonzero(codes == high)), draws)
    exact = Fraction(2) ** (-6 if levels == "bf16" else -3)
    assert abs(up - exact) < 6 * float(exact / draws) ** 0.5


@pytest.mark.parametrize("levels, largest", [("bf16", 3.3895314e38), ("fp16", 65504)])
def test_beyond_the_largest_number_is_infinite(levels, largest):
    beyond = np.nextafter(np.float32(largest), np.float32(np.inf))
    for rounding, first in (("independent", beyond), ("nearest", np.float32(65520))):
        values = [largest, -largest, first, -first]
        if levels == "bf16" and rounding == "nearest":
            values[2:] = [3.4e38, -3.4e38]
        decoded = dequantize(form(levels), quantized(levels, values, 3, rounding), None, 4, "sum")
        np.testing.assert_array_equal(decoded, np.float32([largest, -largest, np.inf, -np.inf]))


def test_sums_of_fp16_are_finite_and_few_bits_are_exact():
    for rank_count in (1, 2, 3, 4, 5, 100, 1000):
        words = quantized("fp16", [65504, -65504, 3])
        total, _ = add_wide(form("fp16", rank_count), Call(), 0, [words] * rank_count, None, 3)
        means = dequantize(form("fp16", rank_count), total, None, 3, "mean")
        assert np.all(np.isfinite(means)) and abs(means[0] - 65504) <= 65504 / 1024
        if rank_count <= 5:
            assert means[2] == 3
    assert narrow_codes.sum_factor("fp16", 5) == 8 and narrow_codes.sum_factor("bf16", 5) == 1


@pytest.mark.parametrize("levels", LEVELS)
def test_thresholds_are_exact(levels):
    """R(e) = 2^k just reaches the upper neighbour, 2^k - 1 does not."""
    for records in (quantizes(), sums()):
        last = {record["case"]: unpack(record["words"], 16, record["value_count"])[-1]
                for record in records if record["value_count"]}
        pairs = [case for case in last if case.startswith(levels) and "enough" in case]
        assert len(pairs) >= 2
        for case in pairs:
            assert last[case] == last[case.replace("enough", "short")] + 1, case


@pytest.mark.parametrize("levels", LEVELS)
def test_only_an_owner_adds_them(levels):
    for schedule in ("ring", "tree", "butterfly", "native", "sparse"):
        request = {"levels": levels, "bits": 16, "combine": "exact"}
        with pytest.raises(ValueError):
            allreduce(Request(schedule, **request), [bits(np.ones(9, np.float32))] * 3)
    for field in ({"rounding": "correlated"}, {"block": 32}, {"rotate": "hadamard"},
                  {"bits_down": 8}):
        with pytest.raises(ValueError, match=next(iter(field))):
            Format(levels, 16, "wide", **field)


@pytest.mark.parametrize("levels", LEVELS)
def test_slices_are_rounded_once(levels):
    request = Request("direct", levels, 16, "exact", "sum")
    ones = [bits(np.full(6, 1 + rank, np.float32)) for rank in range(3)]
    for own in reduce_scatter(request, ones, (1, 2, 3)):
        np.testing.assert_array_equal(own.view(np.float32), np.full(len(own), 6, np.float32))
    for rank, own in enumerate(allgather(request, [x[:2] for x in ones])):
        np.testing.assert_array_equal(own.view(np.float32), np.full(2, 1 + rank, np.float32))
