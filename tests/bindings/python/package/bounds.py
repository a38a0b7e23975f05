"""The methods under test, and how far their mean may be from the true one, in NumPy."""

import math

import numpy as np

PRESETS = ["none", "paper-gl8", "paper-ge8", "paper-gl4", "paper-ge4"]
SCHEDULES = ["ring", "tree", "butterfly", "direct"]

# Distance of the format's levels at the norm, in norms, where codes are averaged or added wide.
STEPS = {"paper-gl8": 1 / 127, "paper-gl4": 1 / 7, "paper-ge4": 1 / 2}
OUTPUT_STEPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


def gradients(rank_count, shape, seed=0, dtype=np.float32):
    """One array per rank, standard normal."""
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((rank_count, *np.atleast_1d(shape)), np.float32)
    return [np.asarray(each) for each in values.astype(dtype)]


def assert_same_bits(results):
    assert len({(result.dtype, result.shape, result.tobytes()) for result in results}) == 1


def assert_within_bound(mean, inputs, preset, schedule):
    """`mean` is what the ranks got for `inputs`; the bound is the method's own."""
    output_step = OUTPUT_STEPS.get(inputs[0].dtype.name, 0)
    inputs = np.array(inputs).astype(np.float64).reshape(len(inputs), -1)
    error = np.asarray(mean).astype(np.float64).ravel() - inputs.mean(axis=0)
    assert error.shape == inputs.shape[1:]
    if preset == "paper-ge8":
        variance = _relative_variance(inputs, schedule) * (inputs**2).sum(axis=1).mean()
        assert (error**2).sum() <= variance
    elif inputs.size:
        largest = _largest_error(inputs, preset, schedule)
        assert np.abs(error).max() <= largest + output_step * (np.abs(mean).max() + largest)


def _largest_error(inputs, preset, schedule):
    """Certain: no rounding leaves its interval, and a mean of errors is no larger than they are.
    Codes that are added exactly are rounded once, averages once more per reduction."""
    float32_error = 2.0**-21 * np.abs(inputs).mean(axis=0).max() * len(inputs)
    if preset == "none":
        return float32_error
    if preset == "paper-gl8" and schedule != "direct":
        steps = 1 / (127 // len(inputs))
    else:
        steps = STEPS[preset] * (1 + _depth(len(inputs), schedule))
    return steps * np.abs(inputs).max() + float32_error


def _relative_variance(inputs, schedule):
    """(1 + theta) (9/8)^depth - 1: the paper's bound, with the roundings of the reductions. It
    is one of expectations; the thousands of values of one call come close to them."""
    rank_count, value_count = inputs.shape
    depth = _depth(rank_count, schedule)
    headroom = 0 if schedule == "direct" else depth
    theta = 1 / (8 * rank_count) + math.sqrt(value_count / rank_count) / 2.0 ** (126 - headroom)
    return (1 + theta) * (9 / 8) ** depth - 1


def _depth(rank_count, schedule):
    """Roundings after the first, along the longest chain."""
    tree = math.ceil(math.log2(rank_count))
    return {"ring": rank_count - 1, "tree": tree, "butterfly": tree, "direct": 1}[schedule]
