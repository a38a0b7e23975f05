"""Requests: results, order, arrays that are kept alive, and what is dropped or refused."""

import copy
import ctypes
import gc
import os
import pickle
import signal
import threading
import time
import weakref

import gqsgd
import numpy as np
import pytest
from bounds import gradients
from gqsgd import _abi

COUNTS = [1000, 3, 70000, 0, 33]


def test_results_are_those_of_allreduce_in_any_order_of_waiting():
    inputs = [gradients(3, count, seed=count) for count in COUNTS]
    q = gqsgd.Quantizer("blocks-8", seed=5)
    expected = [gqsgd.simulate(values, q, step=step) for step, values in enumerate(inputs)]

    def work(comm):
        requests = [comm.allreduce_start(values[comm.rank], q) for values in inputs]
        assert comm.counter == len(COUNTS)
        order = np.random.default_rng(comm.rank).permutation(len(COUNTS))
        results = {i: requests[i].wait() for i in order}
        for i, request in enumerate(requests):
            assert request.test() and request.wait() is results[i]
            assert repr(request) == f"<Request of rank {comm.rank}, ended>"
        return results

    for results in gqsgd.run_local(3, work):
        for i, values in enumerate(expected):
            np.testing.assert_array_equal(results[i], values)


def test_out_is_returned_and_may_be_in_place():
    def work(comm):
        x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
        q = gqsgd.Quantizer("none")
        first = comm.allreduce_start(x, q, op="sum", out=out)
        second = comm.allreduce_start(x, q, op="sum", out=x)
        assert first.wait() is out and second.wait() is x
        return out[0], x[0]

    assert gqsgd.run_local(4, work) == [(4, 4)] * 4


def test_test_is_false_until_the_peer_has_come():
    first, second = gqsgd.Communicator.local(2)
    x, q = np.ones(10, np.float32), gqsgd.Quantizer()
    with first, second:
        request = first.allreduce_start(x, q)
        assert not request.test()
        assert repr(request) == "<Request of rank 0, under way>"
        second.allreduce_start(x, q).wait()
        while not request.test():
            time.sleep(0)


def test_with_waits():
    first, second = gqsgd.Communicator.local(2)
    q = gqsgd.Quantizer("none")
    with first, second:
        x = np.ones(10, np.float32)
        with second.allreduce_start(x, q, op="sum"), first.allreduce_start(x, q, "sum") as request:
            pass
        assert request.wait()[0] == 2


def test_with_that_fails_inside_does_not_wait():
    first, second = gqsgd.Communicator.local(2)
    with first, second, pytest.raises(ZeroDivisionError):
        with first.allreduce_start(np.ones(10, np.float32), gqsgd.Quantizer()):
            raise ZeroDivisionError


def test_arrays_live_until_the_end_of_a_dropped_request():
    first, second = gqsgd.Communicator.local(2)
    x, q = np.ones(1000, np.float32), gqsgd.Quantizer("none")
    with first, second:
        dropped = x.copy()
        alive = weakref.ref(dropped)
        first.allreduce_start(dropped, q, op="sum")
        del dropped
        gc.collect()
        assert alive() is not None, "the library reads it"
        np.testing.assert_array_equal(second.allreduce(x, q, op="sum"), 2 * x)
        last = first.allreduce_start(x, q)
        second.allreduce(x, q)
        last.wait()
        first.allreduce_start(x, q)  # a start looks for what has ended
        gc.collect()
        assert alive() is None


def test_arrays_live_when_an_interrupt_hides_that_the_request_was_started(monkeypatch):
    first, second = gqsgd.Communicator.local(2)
    x = np.ones(1000, np.float32)
    alive, q = weakref.ref(x), gqsgd.Quantizer("none")

    def interrupted(status):
        assert status == 0
        raise KeyboardInterrupt

    with first, second:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("gqsgd.communicator.check", interrupted)
            first.allreduce_start(x, q, op="sum", out=x)
        del x
        gc.collect()
        assert alive() is not None, "the library writes it"
        second.allreduce(np.ones(1000, np.float32), q, op="sum")
        first.allreduce_start(np.ones(3, np.float32), q)
        second.allreduce_start(np.ones(3, np.float32), q).wait()
        first.allreduce_start(np.ones(3, np.float32), q)  # a start looks for what has ended
        gc.collect()
        assert alive() is None


@pytest.mark.usefixtures("ctrl_c")
def test_a_request_that_ctrl_c_was_pressed_for_has_its_result():
    first, second = gqsgd.Communicator.local(2)
    x, q = np.ones(1000, np.float32), gqsgd.Quantizer("none")

    def peer():
        time.sleep(0.3)  # in which the other comes to wait; if it does not, this shows nothing
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        second.allreduce(x, q, op="sum")

    thread = threading.Thread(target=peer)
    with first, second:
        request = first.allreduce_start(x, q, op="sum")
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            request.wait()
            time.sleep(10)
        thread.join()
        np.testing.assert_array_equal(request.wait(), 2 * x)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_right_behind_the_answer_loses_neither_result_nor_memory(monkeypatch, times):
    """Once the result is there, pressed twice its memory is not kept."""
    x = np.ones(1000, np.float32)
    alive, calls = weakref.ref(x), []

    def interrupted(status):
        calls.append(status)
        if len(calls) <= times:
            raise KeyboardInterrupt

    with gqsgd.Communicator.local(1)[0] as comm:
        request = comm.allreduce_start(x, gqsgd.Quantizer("none"), out=x)
        del x
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("gqsgd.collectives.request.check", interrupted)
            request.wait()
        assert set(calls) == {0}, "the library has answered"
        if times == 1:
            assert request.wait() is alive()
        del request
        gc.collect()
        comm.allreduce_start(np.ones(3, np.float32), gqsgd.Quantizer()).wait()
        gc.collect()
        assert alive() is None


def threads_at_most(python, system):
    """Waits until no more are there: the kernel lists a thread that is joined for a moment more."""
    for _ in range(500):
        now = threading.active_count(), len(os.listdir("/proc/self/task"))
        if now[0] <= python and now[1] <= system:
            return True
        time.sleep(0.01)
    return False


def test_a_communicator_that_is_collected_takes_its_requests_along():
    threads = threading.active_count(), len(os.listdir("/proc/self/task"))
    for _ in range(20):
        comms = gqsgd.Communicator.local(2)
        requests = [comms[0].allreduce_start(np.ones(9, np.float32), gqsgd.Quantizer())] * 3
        del comms, requests
        gc.collect()
    assert threads_at_most(*threads)


def test_close_ends_requests_and_every_wait_says_so():
    first, second = gqsgd.Communicator.local(2)
    request = first.allreduce_start(np.ones(10, np.float32), gqsgd.Quantizer())
    first.close()
    for _ in range(2):
        with pytest.raises(gqsgd.Aborted, match="rank 0 was destroyed during a call"):
            request.wait()
        with pytest.raises(gqsgd.Aborted):
            request.test()
    assert repr(request) == "<Request of rank 0, failed>"
    with pytest.raises(gqsgd.BadHandle):
        first.allreduce_start(np.ones(10, np.float32), gqsgd.Quantizer())
    second.close()


def test_a_request_that_is_dropped_after_close_is_freed_with_its_communicator():
    first, second = gqsgd.Communicator.local(2)
    request = first.allreduce_start(np.ones(10, np.float32), gqsgd.Quantizer())
    token, test = request._handle, _abi.library().gqsgd_request_test
    first.close()
    del request, first
    gc.collect()
    assert test(token, ctypes.byref(ctypes.c_int32())) == gqsgd.BadHandle.status
    second.close()


@pytest.mark.parametrize("wrong", [{"op": "max"}, {"out": 3}, {"stream": 4}, {"schedule": "fast"}])
def test_what_one_rank_refuses_is_an_error_on_all(wrong):
    def work(comm):
        x, q = np.ones(10, np.float32), gqsgd.Quantizer()
        refusals = gqsgd.InvalidArgument, TypeError
        with pytest.raises(refusals if comm.rank == 1 else gqsgd.RemoteError):
            comm.allreduce_start(x, q, **(wrong if comm.rank == 1 else {})).wait()
        return comm.allreduce_start(x, q).wait()[0]

    assert len(gqsgd.run_local(3, work)) == 3


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_request_cannot_be_copied(duplicate):
    (comm,) = gqsgd.Communicator.local(1)
    with comm, comm.allreduce_start(np.ones(4, np.float32), gqsgd.Quantizer()) as request:
        with pytest.raises(TypeError, match="belongs to its process"):
            duplicate(request)
