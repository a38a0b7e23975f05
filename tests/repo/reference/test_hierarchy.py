"""Hierarchies: which formats encode means of nodes as results, sums of such means, their error."""

from dataclasses import replace

import numpy as np
import pytest
from gqsgd_reference.allreduce import Request, allreduce
from gqsgd_reference.block_norm import NAN_CODE, norms_of
from gqsgd_reference.levels import Format, encodes_nodes_down
from gqsgd_reference.random import Call
from gqsgd_reference.wide import add_scaled_means
from gqsgd_reference.words import pack, unpack

NODES = (0, 1, 0, 1, 1)
BLOCKS = Format("linear", 8, "wide", 9, block=128, rescale=True)
WEIGHTS = (3, 1, 5)


def means(form, seed, value_count=1024):
    """[(words, scales)] of one mean for each of WEIGHTS."""
    random = np.random.default_rng(seed)
    return [(pack(random.integers(0, 2 * form.s + 1, value_count), form.bits),
             random.integers(0x3f00, 0x4040, value_count // form.block).astype(np.uint16))
            for _ in WEIGHTS]


def exact_mean(form, operands, value_count=1024):
    """In float64."""
    decoded = [np.repeat(norms_of(scales).astype(np.float64), form.block) / form.s
               * (unpack(words, form.bits, value_count) - form.s) for words, scales in operands]
    return sum(weight / sum(WEIGHTS) * values for weight, values in zip(WEIGHTS, decoded))


def decoded(form, words, scales, value_count=1024):
    step = np.repeat(norms_of(scales).astype(np.float64), form.block) / form.s
    return (unpack(words, form.bits, value_count) - form.s) * step


def test_linear_levels_with_rescale_or_finer_bits_down_encode_means_of_nodes_as_results():
    linear = Format("linear", 4, "wide", 4)
    assert not encodes_nodes_down(linear)
    assert encodes_nodes_down(replace(linear, bits_down=8))
    assert encodes_nodes_down(replace(linear, block=128, rescale=True))
    assert not encodes_nodes_down(replace(linear, bits=8, bits_down=4))
    assert encodes_nodes_down(replace(linear, bits=8, bits_down=4, block=128, rescale=True))
    assert not encodes_nodes_down(replace(linear, levels="exponential", block=64, rescale=True))
    adaptive = Format("linear", 0, "wide", 4, block=128, mean_bits=4)
    assert not encodes_nodes_down(adaptive)
    assert encodes_nodes_down(replace(adaptive, rescale=True))
    assert not encodes_nodes_down(Format("rice", 0, "wide", 4, mean_bits=4))


@pytest.mark.parametrize("bits", (4, 8))
def test_sums_of_means_are_unbiased(bits):
    """Over 400 draws of 1024 values; bounds are five standard deviations, of the mean error and of
    that away from zero: a chance of 6e-7 each, if errors are normal."""
    form = replace(BLOCKS, bits=bits)
    operands = means(form, bits)
    exact = exact_mean(form, operands)
    upwards = away = variance = 0
    for step in range(400):
        words, scales = add_scaled_means(form, Call(seed=5, step=step), 1, operands, WEIGHTS, 1024)
        unit = np.repeat(norms_of(scales).astype(np.float64), form.block) / form.s
        error = (decoded(form, words, scales) - exact) / unit
        assert np.all(np.abs(error) < 1.001)
        fraction = exact / unit % 1
        variance += np.sum(fraction * (1 - fraction))
        upwards += np.sum(error)
        away += np.sum(error * np.sign(exact))
    assert abs(upwards) < 5 * np.sqrt(variance)
    assert abs(away) < 5 * np.sqrt(variance)


def adaptive_call(schedule, values, step=0, nodes=NODES):
    request = Request(schedule, "linear", 0, "exact", block=128, rescale=True, mean_bits=4,
                      rounding="correlated", nodes=nodes if schedule != "direct" else (),
                      call=Call(seed=11, step=step))
    return allreduce(request, [x.view(np.uint32) for x in values])


def values_of_many_sizes(rank_count, value_count, seed):
    """Blocks with norms of ten powers of two, so that widths differ."""
    random = np.random.default_rng(seed)
    sizes = np.repeat(2.0**random.integers(-5, 5, value_count // 128), 128)
    return (random.standard_normal((rank_count, value_count)) * sizes).astype(np.float32)


def test_adaptive_sums_of_nodes_cost_at_most_half_of_direct():
    """2 nodes of 8 and 4 of 4, of which ranks have nothing in common: within 1.5 times direct."""
    values = values_of_many_sizes(16, 8192, 5)
    exact = np.mean(values.astype(np.float64), axis=0)

    def error(schedule, nodes=()):
        results = [adaptive_call(schedule, values, step, nodes).values for step in range(2)]
        return np.mean((np.asarray(results).view(np.float32) - exact)**2)

    direct = error("direct")
    for nodes in ((0,) * 8 + (1,) * 8, (0, 1, 2, 3) * 4):
        assert error("hierarchical", nodes) < 1.5 * direct


def test_adaptive_results_over_nodes_are_unbiased():
    """Over 300 draws of 1024 values: five standard deviations of the mean error and of that away
    from zero, in units of each value's own deviation."""
    values = values_of_many_sizes(5, 1024, 6)
    exact = np.mean(values.astype(np.float64), axis=0)
    errors = np.array([np.asarray(adaptive_call("hierarchical", values, step).values)
                       .view(np.float32) - exact for step in range(300)])
    deviation = np.maximum(errors.std(axis=0), 1e-12)
    relative = errors.mean(axis=0) / deviation * np.sqrt(300)
    assert abs(relative.sum()) < 5 * np.sqrt(1024)
    assert abs(np.sum(relative * np.sign(exact))) < 5 * np.sqrt(1024)


def test_adaptive_blocks_without_codes_over_nodes():
    """Blocks of zeros stay zero, and poison stays in its block."""
    values = values_of_many_sizes(5, 2048, 7)
    values[:, 256:384] = 0
    before = adaptive_call("hierarchical", values)
    values[3, 300] = np.nan
    after = adaptive_call("hierarchical", values)
    assert before.scale[2] == 0 and after.scale[2] == NAN_CODE
    result, poisoned = (np.asarray(call.values).view(np.float32) for call in (before, after))
    assert np.all(result[256:384] == 0) and np.all(np.isnan(poisoned[256:384]))
    others = np.r_[0:256, 384:2048]
    assert np.array_equal(result[others], poisoned[others])


def test_a_nan_scale_poisons_its_block_alone():
    operands = means(BLOCKS, 3)
    expected, scales = add_scaled_means(BLOCKS, Call(seed=1), 0, operands, WEIGHTS, 1024)
    operands[2][1][4] = NAN_CODE
    words, poisoned = add_scaled_means(BLOCKS, Call(seed=1), 0, operands, WEIGHTS, 1024)
    assert poisoned.tolist() == [NAN_CODE if b == 4 else code for b, code in enumerate(scales)]
    lanes, before = unpack(words, 8, 1024), unpack(expected, 8, 1024)
    assert np.all(lanes[512:640] == 127)
    assert np.all(lanes[:512] == before[:512]) and np.all(lanes[640:] == before[640:])


def test_means_that_cancel_have_scale_and_codes_zero():
    form = replace(BLOCKS, rank_count=4)
    scales = np.full(1, 0x3f80, dtype=np.uint16)
    operands = [(pack([127 + 40] * 128, 8), scales), (pack([127 - 40] * 128, 8), scales)]
    words, made = add_scaled_means(form, Call(), 0, operands, (2, 2), 128)
    assert made.tolist() == [0] and np.all(unpack(words, 8, 128) == 127)


def test_the_largest_scales_make_no_infinity():
    """4-bit means of 1 and 9 ranks add up to infinity by roundings."""
    form = Format("linear", 4, "wide", 10, block=128, rescale=True)
    scales = np.full(1, 0x7f80, dtype=np.uint16)
    operands = [(pack([14] * 128, 4), scales)] * 2
    words, made = add_scaled_means(form, Call(), 0, operands, (1, 9), 128)
    assert made.tolist() == [0x7f80] and np.all(unpack(words, 4, 128) == 14)


def test_finer_codes_between_nodes_leave_the_error_of_direct():
    """4 bits up, 8 bits down and between nodes: within 15 % of direct."""
    random = np.random.default_rng(7)
    values = [x.astype(np.float32) for x in random.standard_normal((5, 4096))]
    exact = np.mean(np.asarray(values, dtype=np.float64), axis=0)

    def error(schedule):
        request = Request(schedule, "linear", 4, "average", block=128, bits_down=8, rescale=True,
                          rounding="correlated", nodes=NODES if schedule != "direct" else ())
        result = allreduce(request, [x.view(np.uint32) for x in values]).values
        return np.mean((np.asarray(result).view(np.float32) - exact)**2)

    assert error("hierarchical") < 1.15 * error("direct")
