"""gqsgd.jax on GPUs without one: the handler that XLA calls, driven by hand on the device of
threads. Results are compared with those of the handler for CPUs."""

import functools
import resource
import time
from ctypes import CFUNCTYPE, c_int, c_void_p
from pathlib import Path

import gqsgd
import numpy as np
import pytest
import threads_device as device
import xla_frame

COUNT = 4000
ON_CPU, ON_STREAM = "gqsgd_jax_allreduce", "gqsgd_jax_allreduce_on_stream"
STATES = [(5, 0), (5, 1), (5, 65535), (6, 0), (2**32 - 1, 7)]


def gradients(rank, call, lengths=(COUNT,)):
    draw = np.random.default_rng([rank, call])
    return [draw.standard_normal(length, np.float32) for length in lengths]


def state_of(place):
    return np.array(place, np.uint32)


def on_cpus(size, q, lengths=(COUNT,), op="mean"):
    """The results of calls with STATES on every rank's CPU, in memory of the host."""
    comms = gqsgd.Communicator.local(size, timeout_ms=20000)

    def work(rank):
        calls = []
        for call, place in enumerate(STATES):
            tensors, state = gradients(rank, call, lengths), state_of(place)
            results = [np.empty_like(x) for x in tensors]
            passed_on = np.empty_like(state)
            made = xla_frame.Call([*tensors, state], [*results, passed_on], [comms[rank]], q, op=op)
            made.run(ON_CPU)
            assert passed_on.tolist() == list(place)
            calls.append(b"".join(x.tobytes() for x in results))
        return calls

    every = device.on_ranks(size, work)
    for comm in comms:
        comm.close()
    assert all(calls == every[0] for calls in every)
    return every[0]


def on_streams(comm, stream, q, lengths=(COUNT,), op="mean"):
    """The same in memory of the device, enqueued without a wait: the state comes to be there when
    the stream does, as from the program that counts it."""
    state, kept = device.array(state_of((0xEEEEEEEE, 0xEEEEEEEE))), []
    for call, place in enumerate(STATES):
        tensors = [device.array(x) for x in gradients(comm.rank, call, lengths)]
        results = [device.empty(x.host.shape, np.float32) for x in tensors]
        given = state_of(place)
        stream.sleep(5)
        stream.copy(state, given)
        made = xla_frame.Call([*(x.host for x in tensors), state.host],
                              [*(x.host for x in results), state.host], [comm], q, stream, op=op)
        made.run(ON_STREAM)
        kept.append((tensors, given, results))
    stream.synchronize()
    return [b"".join(x.host.tobytes() for x in results) for _, _, results in kept]


@pytest.mark.parametrize("q", ["blocks-8", "paper-gl8", "paper-ge8", "rotated-4-8", "none"])
@pytest.mark.parametrize("size", [1, 3])
def test_the_bits_are_those_of_cpus(q, size):
    q = gqsgd.Quantizer(q, seed=5)
    expected = on_cpus(size, q)
    for calls in device.nccl_ranks(size, lambda comm, stream: on_streams(comm, stream, q)):
        assert calls == expected


def test_trees_are_one_operation():
    q, lengths = gqsgd.Quantizer("paper-gl8", seed=5), (700, 0, 1, 3000)
    expected = on_cpus(2, q, lengths, "sum")
    ranks = device.nccl_ranks(2, lambda comm, stream: on_streams(comm, stream, q, lengths, "sum"))
    assert ranks == [expected] * 2


@pytest.mark.parametrize("lengths", [(COUNT,), (0,)])
@pytest.mark.parametrize("q", ["blocks-8", "paper-gl8"])
def test_threads_on_devices_need_no_nccl(q, lengths):
    q, comms = gqsgd.Quantizer(q, seed=5), gqsgd.Communicator.local(3, timeout_ms=20000)
    expected = on_cpus(3, q, lengths)
    ranks = device.on_ranks(3, lambda rank: on_streams(comms[rank], device.Stream(), q, lengths))
    assert ranks == [expected] * 3
    for comm in comms:
        comm.close()


def one_call(comm, stream, place, count=COUNT, q=None):
    """(call, its memory, where the result will be)"""
    x, state = device.array(np.ones(count, np.float32)), device.array(state_of(place))
    result = device.array(np.full(count, -7, np.float32))
    q = q or gqsgd.Quantizer("paper-gl8")
    made = xla_frame.Call([x.host, state.host], [result.host, state.host], [comm], q, stream)
    return made, (x, state), result


def test_a_call_does_not_wait_for_its_stream():
    def work(comm, stream):
        kept = [one_call(comm, stream, (0, index)) for index in range(3)]
        for made, _, _ in kept[:2]:
            made.run(ON_STREAM)  # the first of its kind looks at the others'
        stream.synchronize()
        stream.sleep(500)
        begin = time.monotonic()
        kept[2][0].run(ON_STREAM)
        passed_s, value = time.monotonic() - begin, kept[2][2].host[0]
        stream.synchronize()
        return passed_s < 0.4, value, kept[2][2].host[0]

    assert device.nccl_ranks(2, work) == [(True, -7, 1)] * 2


def failure_of(made):
    with pytest.raises(xla_frame.XlaError) as caught:
        made.run(ON_STREAM)
    return caught.value


@pytest.mark.parametrize("group", ["nccl", "local"])
def test_states_that_differ_are_reported_by_the_next_call_and_nothing_is_written(group):
    def work(comm, stream):
        warm = [one_call(comm, stream, (1, index)) for index in range(2)]
        for made, _, _ in warm:
            made.run(ON_STREAM)
        wrong = one_call(comm, stream, (2, comm.rank))
        wrong[0].run(ON_STREAM)
        stream.synchronize()
        assert (wrong[2].host == -7).all()
        with pytest.raises(gqsgd.Mismatch, match="index differs: rank 0 has 0, rank 1 has 1"):
            comm.check()
        following = one_call(comm, stream, (3, 0))
        error = failure_of(following[0])
        stream.synchronize()
        assert (following[2].host == 1).all()  # it is executed all the same
        return str(error)

    if group == "nccl":
        said = device.nccl_ranks(2, work)
    else:
        comms = gqsgd.Communicator.local(2, timeout_ms=20000)
        said = device.on_ranks(2, lambda rank: work(comms[rank], device.Stream()))
        for comm in comms:
            comm.close()
    assert all(text.startswith("gqsgd MISMATCH: ") for text in said), said


def test_an_impossible_state_is_refused_on_all_ranks():
    def work(comm, stream):
        made, kept, result = one_call(comm, stream, (1, 65536 * comm.rank))
        said = str(failure_of(made))
        stream.synchronize()
        return said, (result.host == -7).all(), kept is None

    (first, *one), (second, *other) = device.nccl_ranks(2, work)
    assert one == other == [True, False]
    assert first.startswith("gqsgd REMOTE_ERROR: ") and "rank 1 refused" in first
    assert second.startswith("gqsgd INVALID_ARGUMENT: ") and "is above 65535" in second


def test_what_xla_would_not_do_is_refused():
    (comm,) = gqsgd.Communicator.local(1)
    with comm:
        stream, q = device.Stream(), gqsgd.Quantizer()
        x = device.array(np.ones(9, np.float32))
        state, other = (device.array(state_of((0, 0))) for _ in range(2))
        moved = xla_frame.Call([x.host, state.host], [x.host, other.host], [comm], q, stream)
        assert "does not stay where it is" in str(failure_of(moved))
        without = xla_frame.Call([x.host, state.host], [x.host, state.host], [comm], q, None)
        assert str(failure_of(without)) == "XLA has no stream"
        on_host = state_of((0, 0))
        elsewhere = xla_frame.Call([x.host, on_host], [x.host, on_host], [comm], q, stream)
        assert "config.device_step is 0x" in str(failure_of(elsewhere))


class Alone(gqsgd.Transport):
    """A transport of one rank, which is asked for nothing."""

    rank, size = 0, 1
    send = receive = test = progress = None

    def close(self):
        pass


def test_a_communicator_that_has_no_device_is_refused():
    with gqsgd.Communicator.custom(Alone(), timeout_ms=20000) as comm:
        made, _, _ = one_call(comm, device.Stream(), (0, 0))
        assert "it must be NULL for host memory" in str(failure_of(made))


def test_each_device_has_its_communicator():
    comms, q = gqsgd.Communicator.local(2, timeout_ms=20000), gqsgd.Quantizer("none")
    xla_frame.set_devices(xla_frame.CPU, [0, 1])
    xla_frame.set_devices(xla_frame.CUDA, [4, 6])

    def work(rank):
        stream, state = device.Stream(), device.array(state_of((0, 0)))
        x = device.array(np.full(9, rank, np.float32))
        made = xla_frame.Call([x.host, state.host], [x.host, state.host], comms, q, stream,
                              ordinal=[4, 6][rank])
        made.run(ON_STREAM)
        stream.synchronize()
        made.ordinal = 1
        return x.host.tolist(), str(failure_of(made))

    for mean, said in device.on_ranks(2, work):
        assert mean == [0.5] * 9
        assert "none is for device 1; hint" in said and 'backend="cuda"' in said
    for comm in comms:
        comm.close()


def bytes_mapped():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def test_a_call_without_memory_is_refused(monkeypatch):
    """So that no other rank waits for it."""
    reasons = []
    refuse = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p, c_void_p)(
        lambda comm, reason, config, stream: reasons.append(reason) or 0)
    number_of = functools.partial(xla_frame.number_of, gqsgd_comm_refuse=refuse)
    monkeypatch.setattr(xla_frame, "number_of", number_of)
    (comm,) = gqsgd.Communicator.local(1)
    with comm:
        x, state = np.ones(9, np.float32), state_of((0, 0))
        made = xla_frame.Call([x, state], [x, state], [comm], gqsgd.Quantizer())
        made.repeat_first(4 << 20)  # the addresses of so many are 96 MiB, and 8 MiB are left
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (bytes_mapped() + (8 << 20), limits[1]))
        try:
            made.run(ON_CPU)
            error = None
        except xla_frame.XlaError as caught:
            error = caught
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
    assert str(error) == "gqsgd NO_MEMORY: no memory for the addresses of a call's tensors"
    assert reasons == [gqsgd._abi.STATUSES["NO_MEMORY"]]


def test_calls_are_no_part_of_graphs():
    """The one trait of the interface; what a first call of its kind does no graph can hold."""
    assert xla_frame.metadata_of(ON_CPU) == xla_frame.metadata_of(ON_STREAM) == (0, 3, 0)
