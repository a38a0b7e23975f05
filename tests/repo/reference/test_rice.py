"""reference/gqsgd_reference/rice.py: codes that fit and can be read; random words move no step."""

import numpy as np
import pytest
from gqsgd_reference import rice

VALUE_COUNT, PLANES = 5000, rice.planes_of(4, 40, 1, 5000, False)


def _values(seed):
    random = np.random.default_rng(seed)
    sizes = np.exp(random.standard_normal(-(-VALUE_COUNT // 32))).repeat(32)[:VALUE_COUNT]
    return (random.standard_normal(VALUE_COUNT) * sizes).astype(np.float32)


def _uniforms(seed):
    return np.random.default_rng(seed).integers(0, 2**23, VALUE_COUNT, dtype=np.uint64)


@pytest.mark.parametrize("v", [0, 1, 2, 3, 4, 5, 99, 100, 101, 2**30, 2**31 - 1])
def test_roots_are_rounded_up(v):
    root = rice.root_rounded_up(v)
    assert root**2 >= v and (root == 0 or (root - 1)**2 < v)


def test_parameters_are_the_shortest_of_all():
    random = np.random.default_rng(1)
    sizes = 2.0**random.uniform(-2, 13, (3000, 1))
    z = np.minimum(random.exponential(sizes, (3000, 32)), 16382).astype(np.int64)
    lengths = np.array([32 * (1 + p) + (z >> p).sum(axis=1) for p in range(16)])
    p = rice.parameters_of(z)
    assert (lengths[p, np.arange(len(z))] == lengths.min(axis=0)).all()
    assert (lengths[p, np.arange(len(z))] - 32 * p).max() <= 96


def test_the_mean_over_all_random_numbers_is_the_value():
    values = np.float32([0.3, -0.3, 5.75, -5.75, 2, -2, 1e-3])
    neighbours = rice.neighbours_of(values, 0x3F80, False)  # steps of 1
    r = np.arange(2**23, dtype=np.uint64)
    for k, value in enumerate(values):
        one = rice.Neighbours(*(np.full(len(r), getattr(neighbours, name)[k])
                                for name in ("near", "far", "distance", "parts")))
        z = rice.rounded(np.full(len(r), value), one, r)
        numbers = np.where(z % 2 == 1, (z + 1) // 2, -(z // 2))
        assert abs(numbers.sum() - float(value) * 2**23) <= 0.5


def test_words_are_read_as_values_within_a_step_whatever_the_random_numbers():
    values = _values(2)
    steps = set()
    for seed in range(4):
        words = rice.encode(values, PLANES, False, 12, _uniforms(seed))
        steps.add(int(words[0]))
        step = rice.norms_of(words[0])
        assert np.abs(rice.decode(words, VALUE_COUNT) - values).max() <= step * np.float32(1.0001)
    assert len(steps) == 1


def test_the_step_is_almost_the_least_that_fits():
    cells = np.zeros((rice.cells_of(VALUE_COUNT), 32), dtype=np.float32)
    cells.reshape(-1)[:VALUE_COUNT] = _values(3)
    room = 32 * (4 * PLANES - rice.head_words(len(cells))) - 63
    step = rice.step_of(cells, room, False, 12)
    needs = [rice.needed(cells, code, False, 12, 1)[0] for code in range(step - 10, step + 1)]
    fits = [need <= room for need in needs]
    assert fits[-1] and not any(fits[:4])


def test_words_that_end_are_nan_from_there_on():
    words = rice.encode(_values(4), PLANES, False, 12, _uniforms(4))
    whole = rice.decode(words, VALUE_COUNT)
    # Thirteen planes for each cell from the 96th on.
    words[1 + 96 // 8:rice.head_words(rice.cells_of(VALUE_COUNT))] = 0xDDDDDDDD
    read = rice.decode(words, VALUE_COUNT)
    assert (read[:96 * 32] == whole[:96 * 32]).all() and np.isnan(read[-1])
