"""Steps in memory of the device, of calls and of graphs that replay them: bits of the same numbers
given by value."""

import gc
import weakref

import gqsgd
import numpy as np
import pytest
import threads_device as device

COUNT = 5000
Q = gqsgd.Quantizer("paper-gl8", seed=5)  # random in every value, and one kernel among threads


def gradient(rank, count=COUNT):
    return np.random.default_rng(rank).standard_normal(count).astype(np.float32)


def expected(size, step, index=0):
    return gqsgd.simulate([gradient(rank) for rank in range(size)], Q, step=step, index=index)


def local_ranks(size, work):
    """`work(comm, stream)` for threads without NCCL."""
    comms = gqsgd.Communicator.local(size, timeout_ms=20000)

    def run(rank):
        with comms[rank]:
            stream = device.Stream()
            result = work(comms[rank], stream)
            stream.synchronize()
        return result

    return device.on_ranks(size, run)


RANKS = {"nccl": device.nccl_ranks, "local": local_ranks}

STEPS = {
    "int64": np.array([7 + 3 * 2**32], np.int64),
    "uint64": np.array(7 + 3 * 2**32, np.uint64),
    "uint32": np.array([7, 3], np.uint32),
    "int32": np.array([7, 3], np.int32),
}


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("dtype", STEPS)
def test_a_step_is_read_when_the_stream_gets_there(ranks, dtype):
    def work(comm, stream):
        given = STEPS[dtype]
        x, step = device.array(gradient(comm.rank)), device.array(np.zeros_like(given))
        stream.sleep(20)
        stream.copy(step, given)
        mean = comm.allreduce(x, Q, step=step, stream=stream)
        many = comm.allreduce_many([x], Q, step=step, stream=stream)
        stream.synchronize()
        assert comm.counter == 0
        return mean.host, many[0].host

    for mean, many in RANKS[ranks](2, work):
        np.testing.assert_array_equal(mean, expected(2, 7, 3))
        np.testing.assert_array_equal(many, expected(2, 7, 3))


def test_every_collective_takes_a_step_on_the_device():
    """The same bits as with numbers, also of requests."""
    def calls(comm, x, step, stream):
        key = {**step, "stream": stream}
        requests = [
            comm.allreduce_start(x, Q, **key), comm.allreduce_many_start([x, x], Q, **key),
            comm.reduce_scatter_start(x, Q, **key), comm.allgather_start(x, Q, **key)]
        results = [
            comm.allreduce(x, Q, **key), *comm.allreduce_many([x, x], Q, **key),
            comm.reduce_scatter(x, Q, **key), comm.allgather(x, Q, **key)]
        started = [request.wait() for request in requests]
        stream.synchronize()
        return [one.host.copy() for one in [started[0], *started[1], *started[2:], *results]]

    def work(comm, stream):
        x, step = device.array(gradient(comm.rank)), device.array(STEPS["int64"])
        return (calls(comm, x, {"step": step}, stream),
                calls(comm, x, {"step": 7, "index": 3}, stream))

    for found, given in device.nccl_ranks(2, work):
        assert len(found) == 10
        for one, other in zip(found, given):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("ranks", RANKS)
def test_a_replay_takes_the_step_that_the_graph_has_counted(ranks):
    def work(comm, stream):
        x, mean = device.array(gradient(comm.rank)), device.empty(COUNT, np.float32)
        step, graph, means = device.array(np.array([5], np.int64)), device.Graph(), []
        comm.allreduce(x, Q, out=mean, step=step, stream=stream)
        with graph.capture(stream):
            stream.add(step.host, 1)
            comm.allreduce(x, Q, out=mean, step=step, stream=stream)
        for _ in range(3):
            stream.synchronize()
            means.append(mean.host.copy())
            graph.replay(stream)
        stream.synchronize()
        return means, mean.host, comm.counter

    for means, last, counter in RANKS[ranks](2, work):
        for step, mean in enumerate([*means, last], 5):
            np.testing.assert_array_equal(mean, expected(2, step))
        assert counter == 0


@pytest.mark.parametrize("ranks", RANKS)
def test_a_graph_without_a_step_has_the_communicators_counter(ranks):
    """Calls and replays count in one sequence."""
    def work(comm, stream):
        x, mean = device.array(gradient(comm.rank)), device.empty(COUNT, np.float32)
        graph, means = device.Graph(), []

        def keep():
            stream.synchronize()
            means.append(mean.host.copy())

        comm.counter = 4
        comm.allreduce(x, Q, out=mean, stream=stream)
        keep()
        with graph.capture(stream):
            comm.allreduce(x, Q, out=mean, stream=stream)
        for _ in range(2):
            graph.replay(stream)
            keep()
        comm.allreduce(x, Q, out=mean, stream=stream)
        keep()
        assert comm.counter == 8
        comm.counter = 20
        graph.replay(stream)
        keep()
        return means

    for means in RANKS[ranks](2, work):
        for step, mean in zip([4, 5, 6, 7, 20], means):
            np.testing.assert_array_equal(mean, expected(2, step))


def test_a_number_in_a_graph_is_refused():
    def work(comm, stream):
        x, graph = device.array(gradient(comm.rank)), device.Graph()
        comm.allreduce(x, Q, out=x, step=1, stream=stream)
        stream.synchronize()
        with graph.capture(stream), pytest.raises(gqsgd.Unsupported, match="each replay would"):
            comm.allreduce(x, Q, out=x, step=2, stream=stream)

    device.nccl_ranks(2, work)


class Elsewhere(device.Array):
    __module__ = device.Array.__module__  # of the same package
    device = "cuda:1"


REFUSED = {
    "dtype": (lambda: device.empty(1, np.float32), 0, "step has 1 elements of float32"),
    "length": (lambda: device.empty(3, np.int64), 0, "step has 3 elements of int64"),
    "index": (lambda: device.empty(1, np.int64), 2, "index is 2, and step is on a device"),
    "device": (lambda: Elsewhere(1, np.int64), 0, "step is on cuda:1, and the arrays of the call"),
    "host": (lambda: np.array([5, 6]), 0, "step is array"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_step_is_refused_on_all_ranks(case):
    make, index, said = REFUSED[case]

    def work(comm, stream):
        x, step = device.array(np.ones(8, np.float32)), device.array(np.array([1], np.int64))
        x.device = "cuda:0"
        kind = (TypeError if case == "host" else gqsgd.InvalidArgument, said)
        for call in (comm.allreduce, comm.allreduce_many, comm.reduce_scatter, comm.allgather):
            given = [x] if call == comm.allreduce_many else x
            wrong = {"step": make(), "index": index} if comm.rank == 1 else {"step": 1}
            expects = kind if comm.rank == 1 else (gqsgd.RemoteError, "rank 1")
            with pytest.raises(expects[0], match=expects[1]):
                call(given, Q, stream=stream, **wrong)
        mean = comm.allreduce(x, gqsgd.Quantizer("none"), step=step, stream=stream)
        stream.synchronize()
        return mean.host.tolist()

    assert device.nccl_ranks(2, work) == [[1.0] * 8] * 2


def test_a_step_on_the_device_needs_arrays_there():
    (comm,) = gqsgd.Communicator.local(1)
    with comm, pytest.raises(gqsgd.InvalidArgument, match="arrays of the call are in host memory"):
        comm.allreduce(np.ones(8, np.float32), Q, step=device.empty(1, np.int64))


def test_memory_that_is_the_hosts_after_all_is_refused_by_name():
    class Array(device.Array):
        def __init__(self):
            self.host = np.zeros(1, np.int64)

    (comm,) = gqsgd.Communicator.local(1)
    with comm, pytest.raises(gqsgd.InvalidArgument, match="config.device_step is 0x"):
        comm.allreduce(device.empty(8, np.float32), Q, step=Array(), stream=device.Stream())


def test_a_request_keeps_its_step():
    (comm,) = gqsgd.Communicator.local(1)
    with comm:
        x, step, stream = device.array(gradient(0)), device.array(STEPS["int64"]), device.Stream()
        kept = weakref.ref(step)
        stream.sleep(50)
        request = comm.allreduce_start(x, Q, step=step, stream=stream)
        del step
        gc.collect()
        assert kept() is not None
        request.wait()
        del request
        gc.collect()
        assert kept() is None
