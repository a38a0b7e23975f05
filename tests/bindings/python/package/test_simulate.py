"""simulate: the bits of real ranks, from one thread."""

import array

import gqsgd
import numpy as np
import pytest
from bounds import PRESETS, SCHEDULES, gradients


@pytest.mark.parametrize("rank_count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("preset", PRESETS)
def test_simulated_ranks_give_the_bits_of_threads(preset, schedule, rank_count):
    inputs, q = gradients(rank_count, 1000), gqsgd.Quantizer(preset, seed=11)
    expected = gqsgd.run_local(
        rank_count,
        lambda comm: comm.allreduce(
            inputs[comm.rank], q, op="sum", schedule=schedule, step=3, index=2
        ),
        stream_id=4,
    )
    simulated = gqsgd.simulate(
        inputs, q, op="sum", schedule=schedule, step=3, index=2, check=True, stream_id=4
    )
    assert {result.tobytes() for result in expected} == {simulated.tobytes()}


def test_the_default_is_the_mean_by_auto_at_step_0():
    inputs, q = gradients(4, 500), gqsgd.Quantizer("paper-gl8")
    explicit = gqsgd.simulate(inputs, q, op="mean", schedule="auto", step=0, index=0)
    assert gqsgd.simulate(inputs, q).tobytes() == explicit.tobytes()


@pytest.mark.parametrize("chunk_value_count", [32, 96, 4096])
def test_chunks_change_no_bit(chunk_value_count):
    inputs, q = gradients(5, 1001), gqsgd.Quantizer("paper-ge8")
    chunked = gqsgd.simulate(inputs, q, chunk_value_count=chunk_value_count)
    assert chunked.tobytes() == gqsgd.simulate(inputs, q).tobytes()


def test_sums_of_a_transport_have_the_bits_of_a_tree():
    inputs, q = gradients(5, 777), gqsgd.Quantizer("paper-gl8", seed=3)
    native, tree = (gqsgd.simulate(inputs, q, schedule=s, step=2) for s in ("native", "tree"))
    assert native.tobytes() == tree.tobytes()


def test_sums_of_a_transport_are_refused_where_there_are_none():
    with pytest.raises(gqsgd.Unsupported, match="the transport's own allreduce"):
        gqsgd.run_local(2, lambda comm: comm.allreduce(
            np.ones(8, np.float32), gqsgd.Quantizer("paper-gl8"), schedule="native"))
    with pytest.raises(gqsgd.InvalidArgument, match="combine=exact"):
        gqsgd.simulate(gradients(2, 8), gqsgd.Quantizer("paper-ge8"), schedule="native")


def test_a_thousand_ranks():
    ones = [np.full(64, rank, np.float32) for rank in range(1024)]
    mean = gqsgd.simulate(ones, gqsgd.Quantizer("none"), schedule="direct", check=True)
    np.testing.assert_allclose(mean, np.full(64, 511.5), rtol=1e-5)


@pytest.mark.parametrize("shape", [(), (0,), (3, 4), (2, 1, 5)])
def test_shape_and_dtype_are_kept(shape):
    result = gqsgd.simulate([np.ones(shape, np.float32)] * 2, gqsgd.Quantizer("none"))
    assert (result.shape, result.dtype) == (shape, np.float32)
    assert (result == 1).all()


def test_inputs_are_left_alone():
    inputs = gradients(3, 100)
    before = np.array(inputs)
    gqsgd.simulate(inputs, gqsgd.Quantizer(), check=True)
    np.testing.assert_array_equal(before, inputs)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ([], "arrays is empty"),
        ([np.zeros(3, np.float32), np.zeros(4, np.float32)], r"arrays\[1\] is .*shape \(4,\)"),
        ([np.zeros(3, np.float32), np.zeros(3, np.float64)], r"arrays\[1\] is float64"),
        ([np.zeros(3, np.float32), np.zeros(6, np.float32)[::2]], r"arrays\[1\] is not contig"),
    ],
)
def test_arrays_that_do_not_go_together_are_named(arrays, sentence):
    with pytest.raises(gqsgd.InvalidArgument, match=sentence):
        gqsgd.simulate(arrays, gqsgd.Quantizer())


def test_exact_linear_codes_end_at_127_ranks_and_the_error_names_the_ways_out():
    with pytest.raises(gqsgd.InvalidArgument, match=r"(?s)direct|average"):
        q = gqsgd.Quantizer("paper-gl8")
        gqsgd.simulate([np.ones(32, np.float32)] * 128, q, schedule="ring")


def test_check_compares_bits(monkeypatch):
    """A library that gave ranks different bits would be caught: here its last result is bent."""
    inputs, q = gradients(2, 100), gqsgd.Quantizer("none")
    real = gqsgd._abi.library()

    class Bent:
        def __getattr__(self, name):
            return getattr(real, name)

        def gqsgd_simulate(self, *arguments):
            status = real.gqsgd_simulate(*arguments)
            last = arguments[3][1]
            np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * 1).from_address(last))[0] ^= 1
            return status

    monkeypatch.setattr(gqsgd._abi, "_library", Bent())
    with pytest.raises(gqsgd.Internal, match="rank 0 and rank 1"):
        gqsgd.simulate(inputs, q, check=True)


def test_nodes_make_a_hierarchy_with_the_same_bits_on_threads():
    inputs, q, nodes = gradients(5, 1000), gqsgd.Quantizer(seed=3), [0, 1, 1, 0, 1]
    simulated = gqsgd.simulate(inputs, q, schedule="hierarchical", check=True, nodes=nodes)
    assert simulated.tobytes() != gqsgd.simulate(inputs, q, schedule="direct").tobytes()
    threads = gqsgd.run_local(
        5,
        lambda comm: comm.allreduce(inputs[comm.rank], q, schedule="hierarchical", step=0),
        nodes=nodes,
    )
    assert {result.tobytes() for result in threads} == {simulated.tobytes()}


@pytest.mark.parametrize("nodes", [(0, 0, 1, 1), np.array([0, 0, 1, 1]), np.uint8([5, 5, 2, 2]),
                                   array.array("i", [1, 1, 0, 0]), memoryview(b"aabb"), "0:0:1:1"])
def test_nodes_are_any_sequence_of_integers(nodes):
    inputs, q = gradients(4, 1000), gqsgd.Quantizer(seed=3)
    expected = gqsgd.simulate(inputs, q, schedule="hierarchical", nodes=[0, 0, 1, 1])
    made = gqsgd.simulate(inputs, q, schedule="hierarchical", nodes=nodes)
    assert made.tobytes() == expected.tobytes()


@pytest.mark.parametrize("nodes", [[[0, 0], [1, 1]], np.zeros((2, 2), int), [0.5, 1.5],
                                   np.array([0.0, 1.0]), [True, False], {0: 1}])
def test_nodes_that_are_no_integers_are_refused(nodes):
    with pytest.raises(gqsgd.InvalidArgument, match="option nodes has .* for each rank"):
        gqsgd.simulate(gradients(4, 10), gqsgd.Quantizer(), nodes=nodes)


def test_nodes_of_another_number_of_ranks_are_refused():
    with pytest.raises(gqsgd.InvalidArgument, match="option nodes has 2 numbers"):
        gqsgd.simulate(gradients(3, 10), gqsgd.Quantizer(), nodes=[0, 1])
