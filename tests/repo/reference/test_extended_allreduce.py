"""Whole allreduces of presets and of norms per block: error, special blocks, what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from gqsgd_reference.allreduce import Request, allreduce, format_of
from gqsgd_reference.floats import bits, float32_of
from gqsgd_reference.random import Call
from vector_files.support.edges import generated
from vector_files.presets import PAPER_FORMATS, PRESETS, SCHEDULES

ROTATED = [name for name, fields in PRESETS.items() if "rotate" in fields]


def preset(name, **changes):
    return Request("direct", **{**PRESETS[name], **changes})


def normal_inputs(rank_count, value_count, spread=0.0, seed=1):
    """A common part and a part of each rank, of scales that vary by coordinate."""
    random = np.random.default_rng(seed)
    scales = np.exp(spread * random.standard_normal(value_count))
    common = random.standard_normal(value_count)
    return [(scales * (0.5 * common + random.standard_normal(value_count))).astype(np.float32)
            for _ in range(rank_count)]


def run(request, values):
    return float32_of(allreduce(request, [bits(x) for x in values]).values)


def relative_error(request, values):
    mean = np.mean(np.array(values, dtype=np.float64), axis=0)
    return np.square(run(request, values) - mean).sum() / np.square(mean).sum()


@pytest.mark.parametrize("name, light, heavy", (
    ("blocks-8", 1.4e-4, 2e-3), ("rotated-8", 1.0e-4, 1e-4), ("rotated-4-8", 1.6e-2, 1.5e-2),
    ("rotated-4", 3.5e-2, 3e-2), ("relative-8", 1.1e-2, 1.1e-2)))
def test_errors_of_presets_are_what_the_design_promises(name, light, heavy):
    """Normalised squared errors of four ranks: half as large again as simulated at most."""
    request = preset(name, call=Call(seed=2**63 + 5, stream_id=3, step=2, index=1))
    assert relative_error(request, normal_inputs(4, 16384)) < light
    assert relative_error(request, normal_inputs(4, 16384, 2.0)) < heavy


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("rank_count", (1, 3, 4))
def test_results_average_to_the_mean_over_seeds(name, rank_count):
    values = [np.tile(x[:4], 8) for x in normal_inputs(rank_count, 32)]
    runs = np.array([run(preset(name, call=Call(seed=seed)), values) for seed in range(80)])
    runs = runs.reshape(-1, 4).astype(np.float64)
    deviation = runs.std(axis=0) / np.sqrt(len(runs) / 2)  # values of a group share words
    mean = np.mean(np.array(values, dtype=np.float64), axis=0)[:4]
    assert np.all(np.abs(runs.mean(axis=0) - mean) <= 6 * deviation + 1e-6)


@pytest.mark.parametrize("name", ("blocks-8", "rotated-8"))
def test_correlated_rounding_beats_independent_rounding(name):
    values = normal_inputs(16, 8192)
    errors = {rounding: np.mean([relative_error(
        preset(name, rounding=rounding, bits=4, bits_down=8, combine="average",
               call=Call(seed=seed)), values) for seed in range(2)])
        for rounding in ("independent", "correlated")}
    assert errors["correlated"] < 0.75 * errors["independent"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_poisoned_block_leaves_the_others_as_they_were(name):
    values = normal_inputs(3, 4096)
    clean = run(preset(name), values)
    values[1] = values[1].copy()
    values[1][2000] = np.nan
    poisoned = run(preset(name), values)
    reach = {"relative-8": slice(0, 4096), "blocks-8": slice(1920, 2048)}.get(
        name, slice(1024, 2048))
    assert np.all(bits(poisoned[reach]) == 0x7FC00000)
    poisoned[reach] = clean[reach]
    assert np.array_equal(bits(poisoned), bits(clean))


@pytest.mark.parametrize("name", PRESETS)
def test_zero_blocks_are_positive_zeros_and_zero_coordinates_stay_without_rotation(name):
    values = normal_inputs(3, 3072)
    for x in values:
        x[1024:2048], x[2048:][::2] = 0, 0
    result = run(preset(name), values)
    assert np.all(bits(result[1024:2048]) == 0)
    if name not in ROTATED:
        assert np.all(result[2048:][::2] == 0)


@pytest.mark.parametrize("name", ROTATED)
def test_padding_is_zeros(name):
    values = normal_inputs(3, 1500)
    padded = [np.append(x, np.zeros(36, dtype=np.float32)) for x in values]
    assert np.array_equal(run(preset(name), values), run(preset(name), padded)[:1500])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("chosen", PAPER_FORMATS)
@pytest.mark.parametrize("rotate", ("none", "hadamard"))
def test_norms_per_block_bound_errors_by_their_own_block(schedule, chosen, rotate):
    """A block a million times smaller keeps its own relative precision on every schedule."""
    values = normal_inputs(3, 2048)
    for x in values:
        x[1024:] *= 2.0**-20
    request = Request(schedule, *chosen, block=64, rounding="correlated", rotate=rotate)
    mean = np.mean(np.array(values, dtype=np.float64), axis=0)
    errors = np.square(run(request, values) - mean).reshape(2, 1024).mean(axis=1)
    power = np.square(mean).reshape(2, 1024).mean(axis=1)
    ratios = errors / power
    assert 0.3 < ratios[1] / ratios[0] < 3 and ratios.max() < 2.5
    one_norm = np.square(run(replace(request, block=0), values) - mean)[1024:].mean() / power[1]
    if chosen[0] == "linear":
        assert one_norm > 5 * ratios[1]


@pytest.mark.parametrize("rotate", ("none", "hadamard"))
def test_exact_sums_with_norms_per_block_agree_on_ring_tree_and_butterfly(rotate):
    values = [bits(x) for x in normal_inputs(5, 5000)]
    results = [allreduce(Request(schedule, "linear", 8, "exact", block=64, rotate=rotate,
                                 rounding="correlated"), values)
               for schedule in ("ring", "tree", "butterfly")]
    assert all(np.array_equal(results[0].values, other.values) for other in results[1:])
    assert len(results[0].norm) == -(-(5120 if rotate == "hadamard" else 5000) // 64)


def test_a_block_of_the_whole_call_differs_from_one_norm_only_by_its_8_bits():
    values = [bits(generated(9, rank, 64)) for rank in range(3)]
    whole = allreduce(Request("tree", "linear", 8, "average", block=64), values)
    code = int(whole.norm[0])
    rounded = np.float32(float32_of([code << 16])[0])
    values[0][10] = bits(rounded)  # now the one norm is what the code stands for
    pair = [allreduce(Request("tree", "linear", 8, "average", block=block), values)
            for block in (64, 0)]
    assert np.array_equal(pair[0].words, pair[1].words)
    assert np.array_equal(pair[0].values, pair[1].values)


def test_sums_are_the_mean_times_the_number_of_ranks():
    for name in PRESETS:
        values = normal_inputs(4, 2000)
        mean, total = (run(preset(name, op=op), values) for op in ("mean", "sum"))
        assert np.allclose(total, 4 * mean, rtol=1e-5, atol=1e-4 * np.abs(mean).max())


REFUSED = (
    ({"bits_down": 4}, "bits_down"), ({"rescale": True, "block": 32}, "rescale"),
    ({"rounding_down": "subtractive"}, "rounding_down"), ({"mantissa_bits": 2}, "mantissa_bits"))


@pytest.mark.parametrize("changes, field", REFUSED)
@pytest.mark.parametrize("schedule", ("ring", "tree", "butterfly"))
def test_what_only_the_direct_schedule_has_is_refused_elsewhere(schedule, changes, field):
    with pytest.raises(ValueError, match=field):
        format_of(Request(schedule, "linear", 8, "average", **changes), 3)


@pytest.mark.parametrize("levels, bits_, changes, field", (
    ("linear", 8, {"rescale": True}, "rescale"),
    ("linear", 8, {"mantissa_bits": 2}, "mantissa_bits"),
    ("exponential", 4, {"mantissa_bits": 2}, "mantissa_bits"),
    ("exponential", 8, {"mantissa_bits": 1}, "mantissa_bits"),
    ("exponential", 8, {"mantissa_bits": 2, "bits_down": 4}, "mantissa_bits"),
    ("exponential", 8, {"rounding_down": "subtractive"}, "rounding_down"),
    ("linear", 8, {"rounding_down": "subtractive", "rounding": "nearest"}, "rounding_down"),
    ("none", 32, {"block": 64}, "block"), ("none", 32, {"rotate": "hadamard"}, "rotate"),
    ("none", 32, {"rounding": "correlated"}, "rounding"),
    ("none", 32, {"bits_down": 8}, "bits_down")))
def test_fields_that_do_not_go_together_are_refused(levels, bits_, changes, field):
    with pytest.raises(ValueError, match=field):
        format_of(Request("direct", levels, bits_, "average", **changes), 3)


@pytest.mark.parametrize("q, p", (("1", "inf"), ("inf", "2")))
def test_norms_per_block_are_maxima(q, p):
    with pytest.raises(ValueError, match="block"):
        Request("ring", "linear", 8, "average", q=q, p=p, block=32)
