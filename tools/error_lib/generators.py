"""Made-up inputs of all ranks from a seed; the gradients of real networks are in gradients.py.

gauss, heavy, layers: x_i = scale * (b / 2 + g_i) with b and g_i standard normal and b common to all
ranks. The fewer ranks of a seed are the first of the more, so that columns of a table compare.
"""

import numpy as np

LAYER_SCALES = np.logspace(-4, 0, 16)
SPARSE_SHARE = 0.01


def gauss(random, rank_count, value_count):
    """Light tails: scale 1."""
    return _common_and_own(random, rank_count, np.ones(value_count))


def heavy(random, rank_count, value_count):
    """Heavy tails: scale exp(2 z) with z standard normal for each coordinate."""
    return _common_and_own(random, rank_count, np.exp(2 * random.standard_normal(value_count)))


def layers(random, rank_count, value_count):
    """16 layers in a row, scales from 1e-4 to 1."""
    layer = np.arange(value_count) * len(LAYER_SCALES) // max(value_count, 1)
    return _common_and_own(random, rank_count, LAYER_SCALES[layer])


def sparse(random, rank_count, value_count):
    """Standard normal at 1 % of the coordinates, other ones on every rank, and zeros."""
    x = np.zeros((rank_count, value_count), np.float32)
    for row in x:
        kept = random.choice(value_count, max(1, round(SPARSE_SHARE * value_count)), replace=False)
        row[kept] = random.standard_normal(len(kept), np.float32)
    return x


def one_hot(random, rank_count, value_count):
    """A single 1 on every rank: where the bound of the linear levels is nearly reached."""
    x = np.zeros((rank_count, value_count), np.float32)
    for row in x:
        row[random.integers(value_count)] = 1
    return x


def _common_and_own(random, rank_count, scale):
    scale = scale.astype(np.float32)
    half_b = np.float32(0.5) * random.standard_normal(len(scale), np.float32)
    x = np.empty((rank_count, len(scale)), np.float32)
    for row in x:
        random.standard_normal(out=row, dtype=np.float32)
        row += half_b
        row *= scale
    return x


GENERATORS = {"gauss": gauss, "heavy": heavy, "layers": layers, "sparse": sparse,
              "one-hot": one_hot}
