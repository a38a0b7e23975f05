"""Communicators on arrays of a device: enqueued on streams, with the bits of the host."""

import gqsgd
import numpy as np
import pytest
import threads_device as device

COUNT = 5000


def gradient(rank, count=COUNT, dtype=np.float32):
    return np.random.default_rng(rank).standard_normal(count).astype(dtype)


def expected(size, q, **arguments):
    return gqsgd.simulate([gradient(rank) for rank in range(size)], q, **arguments)


@pytest.mark.parametrize("preset", ["blocks-8", "paper-ge8", "rotated-4-8", "none"])
@pytest.mark.parametrize("size", [1, 3])
def test_an_allreduce_on_streams_has_the_bits_of_the_host(preset, size):
    q = gqsgd.Quantizer(preset, seed=5)

    def work(comm, stream):
        x, total = (device.array(gradient(comm.rank)) for _ in range(2))
        mean = comm.allreduce(x, q, step=7, stream=stream)
        same = comm.allreduce(total, q, "sum", "direct", out=total, step=8, stream=stream)
        stream.synchronize()
        assert isinstance(mean, device.Array) and same is total
        return mean.host, total.host

    for mean, total in device.nccl_ranks(size, work):
        np.testing.assert_array_equal(mean, expected(size, q, step=7))
        np.testing.assert_array_equal(
            total, expected(size, q, op="sum", step=8))


def test_calls_wait_for_their_stream_and_no_thread_for_them():
    """What is on a stream comes first; the call returns before."""
    q = gqsgd.Quantizer("none")

    def work(comm, stream):
        x = device.array(np.zeros(COUNT, np.float32))
        comm.allreduce(x, q, out=x, stream=stream)  # the first of its kind looks at the others'
        stream.synchronize()
        stream.sleep(300)
        comm.allreduce(x, q, out=x, stream=stream)
        x.host[...] = comm.rank + 1.0  # in time: the stream is not there yet
        stream.synchronize()
        return x.host

    for mean in device.nccl_ranks(2, work):
        np.testing.assert_array_equal(mean, np.full(COUNT, 1.5, np.float32))


def test_shapes_and_types_are_those_given():
    q = gqsgd.Quantizer("none")

    def work(comm, stream):
        halves = device.array(np.full((4, 25), comm.rank, np.float16))
        mean = comm.allreduce(halves, q, stream=stream)
        stream.synchronize()
        return mean.host

    for mean in device.nccl_ranks(2, work):
        assert (mean.shape, mean.dtype) == ((4, 25), np.float16)
        assert (mean == 0.5).all()


REFUSED = {
    "x is on the host": lambda x: {"x": np.zeros(8, np.float32), "stream": None},
    "out is on the host": lambda x: {"x": x, "out": np.zeros(8, np.float32)},
    "out has another shape": lambda x: {"x": x, "out": device.empty((2, 4), np.float32)},
    "x holds integers": lambda x: {"x": device.empty(8, np.int32)},
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_one_rank_refuses_is_an_error_on_all(case):
    q = gqsgd.Quantizer("none")

    def work(comm, stream):
        x = device.array(np.ones(8, np.float32))
        refused = REFUSED[case](x) if comm.rank == 1 else {"x": x}
        with pytest.raises(gqsgd.InvalidArgument if comm.rank == 1 else gqsgd.RemoteError):
            comm.allreduce(**{"stream": stream, "q": q, **refused})
        mean = comm.allreduce(x, q, stream=stream)
        stream.synchronize()
        return mean.host.tolist()

    assert device.nccl_ranks(2, work) == [[1.0] * 8] * 2


@pytest.mark.parametrize("call", ["allreduce", "allreduce_many"])
def test_all_ranks_may_refuse_at_once(call):
    q = gqsgd.Quantizer("none")

    def work(comm, stream):
        x, integers = device.array(np.ones(8, np.float32)), device.empty(8, np.int32)
        with pytest.raises(gqsgd.InvalidArgument, match="int32"):
            comm.allreduce_many([integers], q, stream=stream) if call == "allreduce_many" else (
                comm.allreduce(integers, q, stream=stream))
        mean = comm.allreduce(x, q, stream=stream)
        stream.synchronize()
        return mean.host.tolist()

    assert device.nccl_ranks(3, work) == [[1.0] * 8] * 3


def test_ranks_that_differ_are_reported():
    def work(comm, stream):
        x = device.array(np.ones(8, np.float32))
        with pytest.raises(gqsgd.Mismatch, match="op"):
            comm.allreduce(x, gqsgd.Quantizer(), ["sum", "mean"][comm.rank], stream=stream)

    device.nccl_ranks(2, work)
