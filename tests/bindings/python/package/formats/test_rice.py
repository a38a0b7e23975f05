"""The presets rice-3 to rice-6 as a user meets them: error and bytes beside adaptive widths, types,
lists, slices, special values, and what they refuse."""

import gqsgd
import numpy as np
import pytest

RANKS = 3


@pytest.fixture(scope="module")
def gradients():
    """Of layers and rows of different sizes."""
    random = np.random.default_rng(3)
    sizes = np.exp(2 * random.standard_normal(100_000 // 64)).repeat(64)
    return (random.standard_normal((RANKS, sizes.size)) * sizes).astype(np.float32)


def error(result, inputs):
    mean = np.mean(inputs, axis=0, dtype=np.float64)
    return np.sum((result - mean) ** 2) / np.sum(mean ** 2)


def everywhere(inputs, call):
    """What `call(comm, rank)` returns on each rank."""
    return gqsgd.run_local(len(inputs), lambda comm: call(comm, comm.rank))


@pytest.mark.parametrize("bits", (3, 4, 5, 6))
def test_less_error_than_adaptive_widths_with_no_more_bytes(gradients, bits):
    found = {}
    for name in (f"rice-{bits}", f"adaptive-{bits}"):
        def call(comm, rank, q=gqsgd.Quantizer(name)):
            result = comm.allreduce(gradients[rank], q, schedule="direct")
            return result, comm.stats()["payload_bytes_sent"]

        results = everywhere(gradients, call)
        assert all(np.array_equal(result, results[0][0]) for result, _ in results)
        found[name] = error(results[0][0], gradients), sum(sent for _, sent in results)
    (rice, rice_bytes), (adaptive, adaptive_bytes) = found.values()
    assert 0 < rice < adaptive / 3
    assert rice_bytes <= adaptive_bytes


@pytest.mark.parametrize("dtype", (np.float16, np.float64))
@pytest.mark.parametrize("op", ("sum", "mean"))
def test_other_types_are_float32_rounded(gradients, dtype, op):
    values = np.clip(gradients, -100, 100).astype(np.float16)
    q = gqsgd.Quantizer("rice-4")
    expected = gqsgd.simulate(list(values.astype(np.float32)), q, op=op, schedule="direct")
    result = gqsgd.simulate(list(values.astype(dtype)), q, op=op, schedule="direct")
    assert result.dtype == dtype
    exact = np.float32(2 ** -10) if dtype == np.float16 else 0
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=exact, atol=2 ** -24)


def test_lists_and_slices(gradients):
    q = gqsgd.Quantizer("rice-5", seed=2)
    cuts = [5, 5, 40_000, 40_033]
    tensors = [np.split(values, cuts) for values in gradients]
    means = everywhere(gradients, lambda comm, rank: comm.allreduce_many(tensors[rank], q))
    for mean in means:
        assert error(np.concatenate(mean), gradients) < 1e-3
        assert all(np.array_equal(a, b) for a, b in zip(mean, means[0]))
    own = everywhere(gradients, lambda comm, rank: comm.reduce_scatter(gradients[rank], q))
    assert error(np.concatenate(own), gradients) < 1e-3
    gathered = everywhere(gradients, lambda comm, rank: comm.allgather(gradients[rank], q))
    assert error(gathered[1].ravel(), [gradients.ravel()]) < 1e-2


def test_cells_with_nan_are_nan_and_zeros_stay_zeros(gradients):
    inputs = gradients.copy()
    inputs[1, 1000] = np.nan
    inputs[:, 5000:5100] = 0
    result = gqsgd.simulate(list(inputs), gqsgd.Quantizer("rice-4"), schedule="direct")
    assert list(np.flatnonzero(np.isnan(result))) == list(range(992, 1024))
    assert not result[5000:5100].any()


def test_what_it_refuses():
    q = gqsgd.Quantizer("rice-4")
    values = [np.ones(100, np.float32)] * 2
    assert repr(gqsgd.Quantizer("rice-4,seed=3")) == "Quantizer('rice-4,seed=3')"
    assert gqsgd.Quantizer(q.spec) == q
    with pytest.raises(gqsgd.InvalidArgument, match="levels=rice needs mean_bits"):
        gqsgd.Quantizer("levels=rice")
    with pytest.raises(gqsgd.InvalidArgument, match="levels=rice needs an owner that adds wide"):
        gqsgd.simulate(values, q, schedule="ring")
    with pytest.raises(gqsgd.Unsupported, match="levels=rice has no stages in the C ABI"):
        gqsgd.norm(values[0], q, site=gqsgd.Site(size=2))
    with pytest.raises(gqsgd.Unsupported, match="expected_error"):
        gqsgd.variance_bound(q, 2, 100)
    assert gqsgd.expected_error(q, values, schedule="direct") >= 0
