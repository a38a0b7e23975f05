"""Communicator.allreduce on threads: values, bits, places for results, counters and refusals."""

import itertools
import threading
import time

import gqsgd
import numpy as np
import pytest
from bounds import PRESETS, SCHEDULES, assert_same_bits, assert_within_bound, gradients
from hypothesis import given
from hypothesis import strategies as st

METHODS = [(preset, schedule) for preset in PRESETS for schedule in SCHEDULES]
COUNTS = [0, 1, 2, 3, 31, 32, 33, 127, 1000]


def allreduce(inputs, q, **options):
    """One allreduce with a thread per input; the results in rank order."""
    return gqsgd.run_local(
        len(inputs), lambda comm: comm.allreduce(inputs[comm.rank], q, **options)
    )


@pytest.mark.parametrize("rank_count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("preset", "schedule"), METHODS)
def test_mean_is_within_the_bound_of_the_method_and_equal_on_all_ranks(
    preset, schedule, rank_count
):
    inputs = gradients(rank_count, 4096, seed=rank_count)
    results = allreduce(inputs, gqsgd.Quantizer(preset, seed=7), schedule=schedule)
    assert_same_bits(results)
    assert_within_bound(results[0], inputs, preset, schedule)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("preset", ["none", "paper-gl8", "paper-gl4", "paper-ge4"])
def test_every_tail_is_right(preset, count):
    inputs = gradients(3, count, seed=count)
    for schedule in SCHEDULES:
        results = allreduce(inputs, gqsgd.Quantizer(preset), schedule=schedule)
        assert_same_bits(results)
        assert_within_bound(results[0], inputs, preset, schedule)


@given(
    rank_count=st.integers(1, 4),
    shape=st.lists(st.integers(0, 9), max_size=3).map(tuple),
    method=st.sampled_from(METHODS).filter(lambda method: method[0] != "paper-ge8"),
    seed=st.integers(0, 2**64 - 1),
)
def test_shapes_are_kept_and_bounds_hold(rank_count, shape, method, seed):
    preset, schedule = method
    inputs = [
        values.reshape(shape)
        for values in gradients(rank_count, int(np.prod(shape)), seed=seed % 1000)
    ]
    results = allreduce(inputs, gqsgd.Quantizer(preset, seed=seed), schedule=schedule)
    assert_same_bits(results)
    assert results[0].shape == shape
    assert_within_bound(results[0], inputs, preset, schedule)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("preset", ["none", "paper-gl8", "paper-gl4", "paper-ge4"])
def test_other_dtypes_are_kept_and_bounds_hold(preset, dtype):
    inputs = gradients(3, 1000, dtype=dtype)
    results = allreduce(inputs, gqsgd.Quantizer(preset), schedule="ring")
    assert_same_bits(results)
    assert results[0].dtype == dtype
    assert_within_bound(results[0], inputs, preset, "ring")


def test_bfloat16_is_kept_and_bounds_hold():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 in NumPy is ml_dtypes' work")
    inputs = gradients(3, 1000, dtype=ml_dtypes.bfloat16)
    results = allreduce(inputs, gqsgd.Quantizer("paper-gl8"), schedule="ring")
    assert_same_bits(results)
    assert results[0].dtype == ml_dtypes.bfloat16
    assert_within_bound(results[0], inputs, "paper-gl8", "ring")


@pytest.mark.parametrize("preset", PRESETS)
def test_sum_is_the_mean_times_the_ranks(preset):
    inputs, q = gradients(4, 1000), gqsgd.Quantizer(preset, seed=1)
    mean = allreduce(inputs, q, op="mean", schedule="ring")[0]
    total = allreduce(inputs, q, op="sum", schedule="ring")[0]
    np.testing.assert_allclose(total, 4 * mean.astype(np.float64), rtol=1e-6)


def test_default_op_is_mean_and_default_schedule_is_auto():
    inputs, q = gradients(3, 100), gqsgd.Quantizer()
    assert_same_bits(allreduce(inputs, q) + allreduce(inputs, q, op="mean", schedule="auto"))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_in_place_and_into_out_have_the_bits_of_out_of_place(schedule):
    inputs, q = gradients(4, 1000), gqsgd.Quantizer("paper-gl8", seed=3)
    expected = allreduce(inputs, q, schedule=schedule)

    def into_out(comm):
        out = np.full(1000, np.nan, np.float32)
        result = comm.allreduce(inputs[comm.rank], q, schedule=schedule, out=out)
        assert result is out
        return out

    def in_place(comm):
        x = inputs[comm.rank].copy()
        result = comm.allreduce(x, q, schedule=schedule, out=x)
        assert result is x
        return x

    before = [x.copy() for x in inputs]
    assert_same_bits(expected + gqsgd.run_local(4, into_out) + gqsgd.run_local(4, in_place))
    np.testing.assert_array_equal(before, inputs)


def test_the_counter_gives_fresh_noise_and_repeats_when_set_back():
    inputs, q = gradients(2, 1000), gqsgd.Quantizer("paper-gl8")

    def steps(comm):
        first = [comm.allreduce(inputs[comm.rank], q) for _ in range(2)]
        assert comm.counter == 2
        comm.counter = 1
        again = comm.allreduce(inputs[comm.rank], q)
        named = comm.allreduce(inputs[comm.rank], q, step=1)
        assert comm.counter == 2
        return first, again, named

    for (zero, one), again, named in gqsgd.run_local(2, steps):
        assert zero.tobytes() != one.tobytes()
        assert one.tobytes() == again.tobytes() == named.tobytes()


def test_step_and_index_enter_the_random_words():
    inputs, q = gradients(2, 1000), gqsgd.Quantizer("paper-gl8")
    places = [(0, 0), (1, 0), (0, 1), (2**32 - 1, 2**16 - 1)]
    results = [allreduce(inputs, q, step=step, index=index)[0].tobytes() for step, index in places]
    assert len(set(results)) == len(places)


def test_stream_id_enters_the_random_words_and_chunks_do_not():
    inputs, q = gradients(2, 1000), gqsgd.Quantizer("paper-gl8")

    def bits(**options):
        work = gqsgd.run_local(2, lambda comm: comm.allreduce(inputs[comm.rank], q), **options)
        return work[0].tobytes()

    assert bits() == bits(chunk_value_count=64) == bits(stream_id=0) != bits(stream_id=1)
    assert bits() == bits(threads=2)


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_a_misaligned_array_is_refused_by_the_library_on_all_ranks(offset):
    aligned = np.zeros(8, np.float32)
    misaligned = np.zeros(40, np.uint8)[offset : offset + 32].view(np.float32)

    def work(comm):
        error = gqsgd.InvalidArgument if comm.rank == 1 else gqsgd.RemoteError
        with pytest.raises(error):
            comm.allreduce(misaligned if comm.rank == 1 else aligned, gqsgd.Quantizer())
        return comm.allreduce(aligned, gqsgd.Quantizer())

    assert_same_bits(gqsgd.run_local(3, work))


REFUSED_HERE = {
    "strides": (lambda x: {"x": np.zeros(16, np.float32)[::2]}, gqsgd.InvalidArgument),
    "dtype": (lambda x: {"x": np.zeros(8, np.int32)}, gqsgd.InvalidArgument),
    "list": (lambda x: {"x": [0.0] * 8}, TypeError),
    "op": (lambda x: {"op": "average"}, gqsgd.InvalidArgument),
    "schedule": (lambda x: {"schedule": "star"}, gqsgd.InvalidArgument),
    "quantizer": (lambda x: {"q": "paper-gl8"}, TypeError),
    "out shape": (lambda x: {"out": np.zeros(9, np.float32)}, gqsgd.InvalidArgument),
    "out dtype": (lambda x: {"out": np.zeros(8, np.float64)}, gqsgd.InvalidArgument),
    "negative step": (lambda x: {"step": -1}, gqsgd.InvalidArgument),
    "huge step": (lambda x: {"step": 2**32}, gqsgd.InvalidArgument),
    "huge index": (lambda x: {"step": 0, "index": 2**16}, gqsgd.InvalidArgument),
    "index alone": (lambda x: {"index": 1}, gqsgd.InvalidArgument),
    "stream": (lambda x: {"stream": 1}, gqsgd.InvalidArgument),
    "overlap": (lambda x: {"x": x[:8], "out": x[4:12]}, gqsgd.InvalidArgument),
}


@pytest.mark.parametrize("name", REFUSED_HERE)
def test_what_one_rank_refuses_reaches_the_others_and_leaves_all_usable(name):
    changes, error = REFUSED_HERE[name]

    def work(comm):
        arguments = {"x": np.ones(8, np.float32), "q": gqsgd.Quantizer()}
        if comm.rank == 1:
            arguments.update(changes(np.zeros(12, np.float32)))
        with pytest.raises(error if comm.rank == 1 else gqsgd.RemoteError) as caught:
            comm.allreduce(**arguments)
        if comm.rank != 1:
            assert "rank 1" in str(caught.value)
        comm.check()
        return comm.allreduce(np.full(8, comm.rank, np.float32), gqsgd.Quantizer("none"), step=9)

    for result in gqsgd.run_local(3, work, timeout_ms=20000):
        np.testing.assert_array_equal(result, np.ones(8, np.float32))


def test_a_refused_call_uses_up_a_step_on_every_rank():
    def work(comm):
        x = np.ones(16, np.float32)[:: comm.rank + 1]
        with pytest.raises(gqsgd.GqsgdError):
            comm.allreduce(x, gqsgd.Quantizer())
        return comm.counter

    assert gqsgd.run_local(2, work) == [1, 1]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("count", {"x": np.ones(9, np.float32)}),
        ("op", {"op": "sum"}),
        ("schedule", {"schedule": "direct"}),
        ("step", {"step": 1}),
        ("index", {"index": 1}),
    ],
)
def test_ranks_that_differ_all_get_a_mismatch_that_names_the_field(name, change):
    def work(comm):
        arguments = {"x": np.ones(8, np.float32), "schedule": "ring", "step": 0}
        if comm.rank == 2:
            arguments.update(change)
        with pytest.raises(gqsgd.Mismatch, match=name):
            comm.allreduce(q=gqsgd.Quantizer("paper-gl8"), **arguments)
        return comm.allreduce(np.ones(8, np.float32), gqsgd.Quantizer(), step=1)

    assert_same_bits(gqsgd.run_local(3, work, timeout_ms=20000))


def test_nonfinite_inputs_poison_or_raise_as_asked():
    inputs = gradients(2, 100)
    inputs[1][5] = np.inf
    poisoned = allreduce(inputs, gqsgd.Quantizer("paper-gl8"))
    assert np.isnan(poisoned[0]).all()
    assert_same_bits(poisoned)
    with pytest.raises(gqsgd.Nonfinite):
        allreduce(inputs, gqsgd.Quantizer("paper-gl8", nonfinite="error"))


def test_zeros_stay_exactly_zero():
    for preset, schedule in METHODS:
        inputs = [np.zeros(100, np.float32)] * 3
        result = allreduce(inputs, gqsgd.Quantizer(preset), schedule=schedule)[0]
        assert result.tobytes() == bytes(400)


def test_timeout_is_a_property_in_milliseconds():
    with gqsgd.Communicator.local(1, timeout_ms=1234)[0] as comm:
        assert comm.timeout_ms == 1234
        comm.timeout_ms = -1
        assert comm.timeout_ms == -1
        comm.timeout_ms = 0
        assert comm.timeout_ms == 300000


def test_a_rank_that_waits_alone_times_out_and_stays_broken():
    comms = gqsgd.Communicator.local(2, timeout_ms=50)
    with pytest.raises(gqsgd.Timeout, match=r"ranks? 1\b"):
        comms[0].allreduce(np.ones(8, np.float32), gqsgd.Quantizer())
    with pytest.raises(gqsgd.Timeout):
        comms[0].check()
    with pytest.raises(gqsgd.GqsgdError):
        comms[0].allreduce(np.ones(8, np.float32), gqsgd.Quantizer())


def test_abort_from_another_thread_ends_a_call_under_way():
    comms = gqsgd.Communicator.local(2)
    timer = threading.Timer(0.1, comms[0].abort)
    timer.start()
    with pytest.raises(gqsgd.Aborted):
        comms[0].allreduce(np.ones(8, np.float32), gqsgd.Quantizer())
    timer.join()


def test_close_from_another_thread_ends_a_call_under_way():
    comms = gqsgd.Communicator.local(2)
    timer = threading.Timer(0.1, comms[0].close)
    timer.start()
    with pytest.raises(gqsgd.Aborted):
        comms[0].allreduce(np.ones(8, np.float32), gqsgd.Quantizer())
    timer.join()


def test_a_second_thread_in_one_communicator_is_refused():
    comms, x = gqsgd.Communicator.local(2, timeout_ms=20000), np.ones(8, np.float32)
    thread = threading.Thread(target=comms[0].allreduce, args=(x, gqsgd.Quantizer("none")))
    thread.start()
    while comms[0].stats()["calls"] == 0:
        time.sleep(0.001)
    with pytest.raises(gqsgd.Busy):
        comms[0].reserve(gqsgd.Quantizer("none"), 8)
    np.testing.assert_array_equal(comms[1].allreduce(x, gqsgd.Quantizer("none")), x)
    thread.join()


def test_counters_are_read_while_calls_go_on():
    comms, x = gqsgd.Communicator.local(2, timeout_ms=20000), np.ones(5000, np.float32)
    seen, ended = [comms[0].stats()], threading.Event()

    def watch():
        while not ended.is_set():
            seen.append(comms[0].stats())

    def average(comm):
        for _ in range(50):
            comm.allreduce(x, gqsgd.Quantizer("blocks-8"))

    threads = [threading.Thread(target=average, args=(comm,)) for comm in comms]
    watcher = threading.Thread(target=watch)
    for thread in [watcher, *threads]:
        thread.start()
    for thread in threads:
        thread.join()
    ended.set()
    watcher.join()
    seen.append(comms[0].stats())
    for before, after in itertools.pairwise(seen):
        assert all(after[name] >= before[name] for name in before)
    assert seen[-1]["calls"] == 50
    assert seen[-1]["header_bytes_sent"] == 50 * 80
    comms[0].close()
    with pytest.raises(gqsgd.BadHandle):
        comms[0].stats()


def test_other_threads_run_while_a_call_waits():
    comms, ticks = gqsgd.Communicator.local(2, timeout_ms=5000), []

    def late():
        ticks.extend(range(1000))
        comms[1].allreduce(np.ones(8, np.float32), gqsgd.Quantizer())

    timer = threading.Timer(0.05, late)
    timer.start()
    comms[0].allreduce(np.ones(8, np.float32), gqsgd.Quantizer())
    timer.join()
    assert len(ticks) == 1000


def test_reserve_makes_workspace():
    with gqsgd.Communicator.local(1)[0] as comm:
        before = comm.stats()["workspace_bytes"]
        comm.reserve(gqsgd.Quantizer("paper-gl8"), 100000)
        reserved = comm.stats()["workspace_bytes"]
        assert before < reserved
        comm.allreduce(np.ones(100000, np.float32), gqsgd.Quantizer("paper-gl8"))
        assert comm.stats()["workspace_bytes"] == reserved
