"""An embedding under Adam: rows that no rank has used must not move by a bit."""

import sys
from pathlib import Path

import numpy as np
import pytest

import gqsgd

sys.path.append(str(Path(__file__).resolve().parents[3] / "tools"))
from demo_lib.optimizers import Adam  # noqa: E402

RANKS, ROWS, COLUMNS, STEPS = 4, 300, 16, 30


def trained(text):
    """Weights before and after, and the rows that some rank used in some step."""
    random = np.random.default_rng(1)
    weights = random.standard_normal(ROWS * COLUMNS).astype(np.float32)
    before = weights.reshape(ROWS, COLUMNS).copy()
    optimizer, quantizer = Adam(weights, 0.01), gqsgd.Quantizer(text)
    used = np.zeros(ROWS, bool)
    for step in range(STEPS):
        gradients = np.zeros((RANKS, ROWS, COLUMNS), np.float32)
        for gradient in gradients:
            rows = random.choice(ROWS // 3, 5, replace=False)
            gradient[rows] = random.standard_normal((5, COLUMNS))
            used[rows] = True
        mean = gqsgd.simulate(list(gradients.reshape(RANKS, -1)), quantizer, schedule="auto",
                              step=step)
        optimizer.apply(weights, mean)
    return before, weights.reshape(ROWS, COLUMNS), used


@pytest.mark.parametrize("preset", ["none", "paper-gl8", "paper-ge8", "blocks-8"])
def test_unused_rows_stay_bit_equal(preset):
    before, after, used = trained(preset)
    np.testing.assert_array_equal(after[~used], before[~used])
    assert np.all(np.any(after[used] != before[used], axis=1))


@pytest.mark.parametrize("preset", ["rotated-8", "blocks-8,rounding_down=subtractive"])
def test_rotation_and_subtraction_move_them_as_documented(preset):
    before, after, used = trained(preset)
    assert np.any(after[~used] != before[~used])
