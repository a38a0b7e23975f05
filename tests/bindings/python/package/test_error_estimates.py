"""expected_error and measured_error: what a format makes of given values."""

import numpy as np
import pytest

import gqsgd


def gradients(ranks, count=3000, seed=0):
    return list(np.random.default_rng(seed).standard_normal((ranks, count)).astype(np.float32))


def normalised_error(result, arrays):
    mean = np.mean(np.asarray(arrays, np.float64), axis=0)
    return np.sum((result - mean) ** 2) / np.sum(mean**2)


def test_expected_error_is_the_mean_over_draws_of_simulated_allreduces():
    q, arrays = gqsgd.Quantizer("paper-gl8", seed=3), gradients(4)
    draws = [
        normalised_error(gqsgd.simulate(arrays, q, schedule="tree", step=step), arrays)
        for step in (5, 6, 7)
    ]
    expected = gqsgd.expected_error(q, arrays, schedule="tree", draws=3, step=5)
    assert expected == pytest.approx(np.mean(draws), rel=1e-12)


def test_expected_error_knows_nodes():
    q, arrays, nodes = gqsgd.Quantizer("paper-gl8"), gradients(8), [0, 0, 0, 0, 1, 1, 1, 1]
    result = gqsgd.simulate(arrays, q, schedule="hierarchical", nodes=nodes)
    expected = gqsgd.expected_error(q, arrays, schedule="hierarchical", draws=1, nodes=nodes)
    assert expected == pytest.approx(normalised_error(result, arrays), rel=1e-12)
    flat = gqsgd.expected_error(q, arrays, schedule="hierarchical", draws=1)
    assert expected > 1.05 * flat  # 1.2 times on 2 nodes of 4: docs/results/nodes.md


def test_expected_error_refuses_options_as_a_communicator_does():
    with pytest.raises(gqsgd.InvalidArgument, match="option nodes has 2 numbers"):
        gqsgd.expected_error(gqsgd.Quantizer(), gradients(3), nodes=[0, 1])


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_expected_error_reads_other_types(dtype):
    arrays = [x.astype(dtype) for x in gradients(3)]
    q = gqsgd.Quantizer("paper-gl8")
    result = gqsgd.simulate(arrays, q, schedule="direct")
    expected = gqsgd.expected_error(q, arrays, schedule="direct", draws=1)
    assert expected == pytest.approx(normalised_error(result.astype(np.float64), arrays))


def test_no_error_is_zero_and_no_signal_is_infinite():
    whole = [np.full(100, 7, np.float32), np.full(100, -7, np.float32)]
    assert gqsgd.expected_error(gqsgd.Quantizer("paper-gl8"), [np.zeros(9, np.float32)]) == 0
    assert gqsgd.expected_error(gqsgd.Quantizer("none"), whole) == 0
    apart = [np.array([1, 1e-3], np.float32), np.array([-1, -1e-3], np.float32)]
    q = gqsgd.Quantizer("paper-ge4")
    assert gqsgd.expected_error(q, apart, schedule="ring", draws=64) == np.inf


@pytest.mark.parametrize(
    "text, schedule", [("paper-gl4", "auto"), ("paper-gl4,norm=2:2", "sparse")]
)
def test_measured_error_is_that_of_the_next_call_and_equal_on_all_ranks(text, schedule):
    q, arrays = gqsgd.Quantizer(text), gradients(4)

    def work(comm):
        comm.counter = 11
        measured = comm.measured_error(arrays[comm.rank], q, schedule=schedule)
        return measured, comm.counter, comm.allreduce(arrays[comm.rank], q, schedule=schedule)

    results = gqsgd.run_local(4, work)
    assert len({measured for measured, _, _ in results}) == 1
    measured, counter, mean = results[0]
    assert counter == 11
    assert measured == pytest.approx(normalised_error(mean, arrays), rel=1e-4)


def test_a_refused_estimate_is_refused_on_all_ranks():
    def work(comm):
        x = np.ones(8 + comm.rank, np.float32)
        with pytest.raises(gqsgd.Mismatch, match="value_count|count"):
            comm.measured_error(x, gqsgd.Quantizer("paper-gl8"), step=0)
        return comm.allreduce(np.ones(4, np.float32), gqsgd.Quantizer("none"))

    for result in gqsgd.run_local(2, work):
        np.testing.assert_array_equal(result, np.ones(4))


def test_draws_must_be_positive():
    with pytest.raises(gqsgd.InvalidArgument, match="draw_count is 0"):
        gqsgd.expected_error(gqsgd.Quantizer("paper-gl8"), gradients(2), draws=0)
