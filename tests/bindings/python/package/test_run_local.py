"""run_local: results in rank order, the root cause of a failure, and no thread left behind."""

import sys
import threading

import gqsgd
import numpy as np
import pytest


class Broken(Exception):
    """What a user's own function raises."""


def values():
    return np.ones(8, np.float32)


@pytest.fixture(autouse=True)
def no_thread_left_behind():
    before = threading.active_count()
    yield
    assert threading.active_count() == before


@pytest.mark.parametrize("n", [1, 2, 5])
def test_results_are_in_rank_order(n):
    assert gqsgd.run_local(n, lambda comm: (comm.rank, comm.size)) == [(r, n) for r in range(n)]


def test_each_rank_has_its_own_thread():
    names = gqsgd.run_local(3, lambda comm: threading.current_thread().name)
    assert names == ["gqsgd rank 0", "gqsgd rank 1", "gqsgd rank 2"]


def test_options_reach_the_communicators():
    assert gqsgd.run_local(2, lambda comm: comm.timeout_ms, timeout_ms=77) == [77, 77]
    with pytest.raises(gqsgd.InvalidArgument, match="speed"):
        gqsgd.run_local(2, lambda comm: None, speed=1)


def test_communicators_are_closed_at_the_end():
    for comm in gqsgd.run_local(2, lambda comm: comm):
        with pytest.raises(gqsgd.BadHandle):
            comm.check()


@pytest.mark.parametrize("culprit", [0, 1, 3])
def test_the_root_cause_is_raised_unchanged_while_others_wait_in_a_call(culprit):
    error = Broken("here")

    def work(comm):
        if comm.rank == culprit:
            raise error
        comm.allreduce(values(), gqsgd.Quantizer())

    with pytest.raises(Broken) as caught:
        gqsgd.run_local(4, work)
    assert caught.value is error
    if sys.version_info >= (3, 11):
        assert error.__notes__ == [f"raised on rank {culprit} of gqsgd.run_local"]


def test_the_root_cause_is_raised_when_it_comes_in_a_later_call():
    def work(comm):
        for step in range(5):
            comm.allreduce(values(), gqsgd.Quantizer())
            if comm.rank == 2 and step == 3:
                raise Broken

    with pytest.raises(Broken):
        gqsgd.run_local(3, work)


def test_an_error_of_one_rank_comes_before_its_echo_on_the_others():
    def work(comm):
        x = np.ones(16, np.float32)[::2] if comm.rank == 1 else values()
        comm.allreduce(x, gqsgd.Quantizer())

    for _ in range(5):
        with pytest.raises(gqsgd.InvalidArgument, match="strides"):
            gqsgd.run_local(3, work)


def test_an_error_that_all_ranks_get_is_raised():
    with pytest.raises(gqsgd.Mismatch):
        gqsgd.run_local(
            3, lambda comm: comm.allreduce(np.ones(8 + comm.rank, np.float32), gqsgd.Quantizer())
        )


def test_an_abort_by_hand_is_raised_when_nothing_else_explains_it():
    def work(comm):
        if comm.rank == 0:
            comm.abort()
        comm.allreduce(values(), gqsgd.Quantizer())

    with pytest.raises(gqsgd.Aborted):
        gqsgd.run_local(2, work)


def test_a_rank_that_closed_its_communicator_does_not_hide_the_cause():
    def work(comm):
        comm.close()
        raise Broken

    with pytest.raises(Broken):
        gqsgd.run_local(2, work)


def test_system_exit_of_a_rank_is_raised_and_no_rank_is_left_waiting():
    def work(comm):
        if comm.rank == 0:
            sys.exit(3)
        comm.allreduce(values(), gqsgd.Quantizer())

    with pytest.raises(SystemExit):
        gqsgd.run_local(2, work)


def test_ctrl_c_while_waiting_for_the_ranks_aborts_them(monkeypatch):
    join = threading.Thread.join

    def interrupted(thread, timeout=None):
        monkeypatch.setattr(threading.Thread, "join", join)
        raise KeyboardInterrupt

    def work(comm):
        if comm.rank == 0:
            with pytest.raises(gqsgd.Aborted):
                comm.allreduce(values(), gqsgd.Quantizer())

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gqsgd.run_local(2, work)
