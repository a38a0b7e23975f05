"""allreduce_many, reduce_scatter and allgather: values, bits, places for results and refusals."""

import gqsgd
import numpy as np
import pytest
from bounds import assert_same_bits, gradients

COUNTS = [1000, 0, 33, 5000]


def lists(rank_count=3):
    """For each rank its arrays."""
    tensors = [gradients(rank_count, count, seed=count) for count in COUNTS]
    return [[tensor[rank] for tensor in tensors] for rank in range(rank_count)]


def test_many_arrays_have_the_bits_of_one_flat_array():
    q = gqsgd.Quantizer("blocks-8", seed=2)

    def flat(arrays):
        padded = [np.pad(x, (0, -x.size % 128)) for x in arrays]
        return np.concatenate(padded)

    expected = gqsgd.simulate([flat(arrays) for arrays in lists()], q, step=3)
    results = gqsgd.run_local(3, lambda comm: comm.allreduce_many(lists()[comm.rank], q, step=3))
    for arrays in results:
        assert [x.size for x in arrays] == COUNTS
        first = 0
        for x in arrays:
            np.testing.assert_array_equal(x, expected[first:first + x.size])
            first += -(-x.size // 128) * 128


def test_many_in_place_and_as_a_request_is_the_same():
    q = gqsgd.Quantizer("paper-gl8", norm=("2", "2"))

    def work(comm):
        arrays = lists()[comm.rank]
        expected = comm.allreduce_many(arrays, q, op="sum", step=1)
        request = comm.allreduce_many_start(arrays, q, op="sum", step=1, out=arrays)
        result = request.wait()
        assert all(x is y for x, y in zip(result, arrays))
        for x, y in zip(result, expected):
            np.testing.assert_array_equal(x, y)
        assert comm.allreduce_many([], q) == []
        return np.concatenate(result)

    assert_same_bits(gqsgd.run_local(3, work))


@pytest.mark.parametrize("counts", [None, [7, 0, 3000]])
def test_a_reduce_scatter_gives_each_rank_its_slice(counts):
    size = 3007
    inputs = gradients(3, size, seed=9)
    mean = np.mean(inputs, axis=0, dtype=np.float64)
    bounds = np.cumsum([0] + (counts or [1003, 1002, 1002]))

    def work(comm):
        exact = comm.reduce_scatter(inputs[comm.rank], gqsgd.Quantizer("none"), counts)
        coded = comm.reduce_scatter(inputs[comm.rank], gqsgd.Quantizer(), counts, step=1)
        x = inputs[comm.rank].copy()
        own = x[bounds[comm.rank]:bounds[comm.rank + 1]]
        request = comm.reduce_scatter_start(x, gqsgd.Quantizer(), counts, out=own, step=1)
        assert request.wait() is own
        np.testing.assert_array_equal(own, coded)
        return exact, coded

    for rank, (exact, coded) in enumerate(gqsgd.run_local(3, work)):
        own = mean[bounds[rank]:bounds[rank + 1]]
        np.testing.assert_allclose(exact, own, atol=1e-6)
        np.testing.assert_allclose(coded, own, atol=0.1)


@pytest.mark.parametrize("counts", [[1000, 1000, 1000], [7, 0, 3000]])
def test_an_allgather_gives_all_ranks_the_same_bits(counts):
    slices = [gradients(1, count, seed=count + 1)[0] for count in counts]
    own = counts if len(set(counts)) > 1 else None

    def work(comm):
        x, q = slices[comm.rank], gqsgd.Quantizer("rotated-4-8")
        exact = comm.allgather(x, gqsgd.Quantizer("none"), own)
        np.testing.assert_array_equal(exact, np.concatenate(slices))
        coded = comm.allgather(x, q, own, step=2)
        first = sum(counts[:comm.rank])
        out = np.zeros(sum(counts), np.float32)
        out[first:first + x.size] = x
        request = comm.allgather_start(out[first:first + x.size], q, own, out=out, step=2)
        assert request.wait() is out
        np.testing.assert_array_equal(out, coded)
        return coded

    assert_same_bits(gqsgd.run_local(3, work))


def test_a_scattered_and_gathered_mean_is_that_of_an_allreduce_within_its_noise():
    inputs = gradients(4, 4000, seed=3)

    def work(comm):
        own = comm.reduce_scatter(inputs[comm.rank], gqsgd.Quantizer(), step=0)
        return comm.allgather(own, gqsgd.Quantizer(), step=1)

    results = gqsgd.run_local(4, work)
    assert_same_bits(results)
    np.testing.assert_allclose(results[0], np.mean(inputs, axis=0), atol=0.1)


REFUSALS = {
    "counts has 2 numbers for 3 ranks": lambda comm, x, q: comm.reduce_scatter(x, q, [5, 5]),
    "counts add up to 9, x has 10": lambda comm, x, q: comm.reduce_scatter(x, q, [3, 3, 3]),
    r"counts\[1\] is 4, x of this rank has 10": lambda comm, x, q: comm.allgather(x, q, [10, 4, 1]),
    "out has 9 values of float32; 30": lambda comm, x, q: comm.allgather(x, q, out=x[:9].copy()),
    "arrays hold float32 and float64": lambda comm, x, q: comm.allreduce_many(
        [x, x.astype(np.float64)], q),
    "out has 1 arrays for 2": lambda comm, x, q: comm.allreduce_many([x, x], q, out=[x]),
    r"out\[1\] is float32 of shape \(9,\), arrays\[1\] is float32 of shape \(10,\)":
        lambda comm, x, q: comm.allreduce_many([x, x], q, out=[x.copy(), x[:9].copy()]),
    r"out\[1\] is read-only": lambda comm, x, q: comm.allreduce_many(
        [x, np.float32(1)], q, out=[x.copy(), np.float32(2)]),
    "schedule sparse": lambda comm, x, q: comm.allreduce_many(
        [x], gqsgd.Quantizer("paper-gl8"), schedule="sparse"),
}


@pytest.mark.parametrize("sentence", REFUSALS)
def test_what_one_rank_refuses_is_an_error_on_all(sentence):
    def work(comm):
        x, q = np.ones(10, np.float32), gqsgd.Quantizer()
        if comm.rank == 1:
            with pytest.raises(gqsgd.InvalidArgument, match=sentence):
                REFUSALS[sentence](comm, x, q)
        else:
            with pytest.raises(gqsgd.RemoteError, match="rank 1"):
                comm.allreduce_many([x, x], q)
        return comm.allreduce(x, q)[0]

    assert len(gqsgd.run_local(3, work)) == 3


def test_different_operations_are_named():
    def work(comm):
        x, q = np.ones(9, np.float32), gqsgd.Quantizer()
        with pytest.raises(gqsgd.Mismatch, match="rank 0 has reduce_scatter, rank 1 has allreduce"):
            comm.allreduce(x, q) if comm.rank == 1 else comm.reduce_scatter(x, q)

    gqsgd.run_local(2, work)
