"""Whole allreduces over simulated ranks: error bounds, special values, agreement of schedules."""

import numpy as np
import pytest
from gqsgd_reference.allreduce import Request, allreduce
from gqsgd_reference.floats import FLT_MAX, bits, float32_of, narrow, widen
from gqsgd_reference.random import Call
from vector_files.allreduces import FORMATS, SCHEDULES
from vector_files.support.edges import generated


def inputs_of(rank_count, value_count):
    return [bits(generated(5, rank, value_count)) for rank in range(rank_count)]


def exact_mean(inputs):
    return np.mean([float32_of(x).astype(np.float64) for x in inputs], axis=0)


def values_of(request, inputs):
    return float32_of(allreduce(request, inputs).values).astype(np.float64)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("rank_count", (1, 2, 3, 5, 8, 13))
def test_linear_errors_stay_below_a_step_per_rounding(schedule, rank_count):
    inputs = inputs_of(rank_count, 200)
    norm = max(np.abs(float32_of(x)).max() for x in inputs)
    for bits_, combine in ((8, "exact"), (8, "average"), (4, "average")):
        exact = combine == "exact" and schedule != "direct"
        s = (2**(bits_ - 1) - 1) // (rank_count if exact else 1)
        request = Request(schedule, "linear", bits_, combine, call=Call(seed=1))
        error = np.abs(values_of(request, inputs) - exact_mean(inputs)).max() * s / norm
        chain = {"ring": rank_count - 1, "direct": 1}.get(schedule, (rank_count - 1).bit_length())
        roundings = 1 + chain
        assert error < (1 if exact else roundings) * 1.0001


@pytest.mark.parametrize("rank_count", (1, 2, 3, 5, 9, 42))
def test_exact_sums_are_the_same_bits_on_ring_tree_and_butterfly(rank_count):
    inputs = inputs_of(rank_count, 300)
    results = [allreduce(Request(schedule, "linear", 8, "exact"), inputs)
               for schedule in ("ring", "tree", "butterfly")]
    assert all(np.array_equal(results[0].words, other.words) for other in results[1:])
    assert all(np.array_equal(results[0].values, other.values) for other in results[1:])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("chosen", FORMATS)
def test_results_average_to_the_mean_over_seeds(schedule, chosen):
    inputs = [bits(np.float32([0.3, -0.7, 1.0, 0.01] * 8)) for _ in range(3)]
    inputs[2] = bits(np.float32([-0.2, -0.1, 0.5, 0.02] * 8))
    runs = np.array([values_of(Request(schedule, *chosen, call=Call(seed=seed)), inputs)
                     for seed in range(80)]).reshape(-1, 4)
    deviation = runs.std(axis=0) / np.sqrt(len(runs))
    expected = exact_mean(inputs)[:4]
    # One word serves four elements of a group, so these are not quite independent: 6 sigma.
    assert np.all(np.abs(runs.mean(axis=0) - expected) <= 6 * deviation + 1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("chosen", FORMATS)
def test_special_inputs(schedule, chosen):
    request = Request(schedule, *chosen)
    zeros = [bits(np.float32([0.0, -0.0, 0.0]))] * 3
    assert np.all(float32_of(allreduce(request, zeros).values) == 0)
    assert len(allreduce(request, [bits(np.float32([]))] * 3).values) == 0
    poisoned = [bits(np.float32([1, 2, 3])), bits(np.float32([1, np.nan, 3]))]
    result = allreduce(request, poisoned).values
    if chosen[0] == "none":
        assert result.tolist() == [0x3F800000, 0x7FC00000, 0x40400000]
    else:
        assert result.tolist() == [0x7FC00000] * 3


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("rank_count", (1, 2, 3, 7, 60, 127))
def test_all_ranks_at_the_norm_keep_it(schedule, rank_count):
    inputs = [bits(np.float32([3.5, -3.5] * 20))] * rank_count
    request = Request(schedule, "linear", 8, "exact", op="mean")
    values = float32_of(allreduce(request, inputs).values)
    assert np.all(np.sign(values) == [1, -1] * 20)
    assert np.abs(values.view(np.int32) - float32_of(inputs[0]).view(np.int32)).max() <= 1


def test_sums_beyond_the_largest_number_are_infinite_and_keep_their_sign():
    inputs = [bits(np.array([FLT_MAX, -FLT_MAX], dtype=np.float32))] * 3
    for schedule in SCHEDULES:
        result = values_of(Request(schedule, "linear", 8, "exact", op="sum"), inputs)
        assert result.tolist() == [np.inf, -np.inf]


def test_levels_none_add_in_rank_order_on_the_direct_schedule():
    inputs = inputs_of(5, 100)
    total = float32_of(inputs[0])
    for x in inputs[1:]:
        total = total + float32_of(x)
    result = allreduce(Request("direct", "none", 32, "sum", op="sum"), inputs).values
    assert np.array_equal(result, bits(total))


@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float64"))
def test_dtypes_only_change_the_ends(dtype):
    """Inputs that the type holds exactly give the float32 run, then rounded."""
    values = [np.round(generated(6, rank, 50) * 128) / 128 for rank in range(3)]
    plain = allreduce(Request("ring", "linear", 8, "average"), [bits(x) for x in values])
    patterns = [narrow(x, dtype, np.zeros(50, dtype=np.uint64), True) for x in values]
    assert all(np.array_equal(widen(p, dtype), x) for p, x in zip(patterns, values))
    result = allreduce(Request("ring", "linear", 8, "average", dtype=dtype), patterns)
    assert np.array_equal(result.words, plain.words)
    rounded, wide = widen(result.values, dtype), float32_of(plain.values)
    assert np.all(np.abs(rounded - wide) <= np.abs(wide) * 2.0**-7)


def test_nearest_does_not_depend_on_the_seed_where_nothing_is_reduced_at_random():
    inputs = inputs_of(3, 100)
    for schedule in ("ring", "direct"):
        results = [allreduce(Request(schedule, "linear", 8, "exact", rounding="nearest",
                                     call=Call(seed=seed)), inputs).values for seed in range(2)]
        assert np.array_equal(*results)
