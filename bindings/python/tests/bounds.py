"""How far a quantised mean may be from the true one: each method's own bound, in NumPy."""

import numpy as np


def assert_within_bound(mean, inputs, preset, schedule):
    """`mean` is what the ranks got for the rows of `inputs`."""
    inputs = np.asarray(inputs, np.float64).reshape(len(inputs), -1)
    error = np.asarray(mean, np.float64).ravel() - inputs.mean(axis=0)
    if inputs.size == 0:
        assert error.size == 0
    elif preset == "paper-ge8":
        assert (error**2).sum() <= _relative_variance(inputs, schedule) * _mean_square(inputs)
    else:
        assert np.abs(error).max() <= _largest_error(inputs, preset, schedule)


def _largest_error(inputs, preset, schedule):
    """Every rounding stays inside its interval, so that the largest error is certain."""
    rank_count = len(inputs)
    float32_error = 2.0**-21 * np.abs(inputs).mean(axis=0).max()
    if preset == "none":  # n - 1 additions and a division in float32
        return float32_error * rank_count
    steps = {"ring": 1 / (127 // rank_count), "direct": 2 / 127}[schedule]
    return steps * np.abs(inputs).max() + float32_error


def _relative_variance(inputs, schedule):
    """(9/8)^depth (1 + theta) - 1: the paper's bound with the variance of the reductions. It
    holds in expectation; thousands of values of one call come close to that."""
    rank_count, value_count = inputs.shape
    depth = {"ring": rank_count - 1, "direct": 1}[schedule]
    headroom = {"ring": rank_count - 1, "direct": 0}[schedule]
    theta = 1 / (8 * rank_count) + np.sqrt(value_count / rank_count) / 2.0 ** (126 - headroom)
    return (9 / 8) ** depth * (1 + theta) - 1


def _mean_square(inputs):
    return (inputs**2).sum(axis=1).mean()
