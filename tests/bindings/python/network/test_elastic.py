"""Communicators that continue with other ranks: survivors, a newcomer, and what is refused."""

import time
from concurrent.futures import ThreadPoolExecutor

import declarations
import gqsgd
import numpy as np
import pytest
from gqsgd.network import elastic

Q = gqsgd.Quantizer("rotated-4")
OPTIONS = {"timeout_ms": 30000}


def test_the_prototypes_equal_the_header():
    assert declarations.functions(declarations.code_of("gqsgd_elastic.h")) == elastic.PROTOTYPES


@pytest.mark.parametrize("make_id", [gqsgd.local_id, gqsgd.unique_id])
def test_survivors_and_a_newcomer_continue_at_the_step_of_the_old_group(make_id):
    old = gqsgd.Communicator.local(3, stream_id=4, **OPTIONS)
    old[0].counter = old[2].counter = 11
    old[1].abort()
    unique_id, members = make_id(), [2, -1, 0]
    values = np.random.default_rng(0).standard_normal((3, 500), np.float32)

    def rank(k):
        if members[k] < 0:
            comm = gqsgd.Communicator.join(unique_id, k, members, **OPTIONS)
        else:
            comm = old[members[k]].reconfigure(unique_id, k, members)
        with comm:
            assert (comm.rank, comm.size, comm.counter, comm.timeout_ms) == (k, 3, 11, 30000)
            return comm.allreduce(values[k], Q)

    expected = gqsgd.simulate(list(values), Q, step=11, stream_id=4)
    with ThreadPoolExecutor(3) as threads:
        for result in threads.map(rank, range(3)):
            np.testing.assert_array_equal(result, expected)
    for comm in old:
        comm.close()


def test_what_is_refused_is_named():
    with gqsgd.Communicator.local(1)[0] as comm:
        with pytest.raises(gqsgd.InvalidArgument, match="255 bytes, not 256"):
            comm.reconfigure(b"x" * 255, 0, [0])
        with pytest.raises(gqsgd.InvalidArgument, match="members.0. is 4294967296"):
            comm.reconfigure(gqsgd.local_id(), 0, [1 << 32])
        with pytest.raises(gqsgd.InvalidArgument, match="nothing to continue"):
            comm.reconfigure(gqsgd.local_id(), 0, [-1])
        with pytest.raises(gqsgd.InvalidArgument, match="option costs is the survivors'"):
            comm.reconfigure(gqsgd.local_id(), 0, [0], costs="builtin")
        with pytest.raises(gqsgd.Mismatch, match=r"members\[0\] is rank 7 on rank 0"):
            comm.reconfigure(gqsgd.local_id(), 0, [7])
        with pytest.raises(gqsgd.Mismatch, match="was a newcomer"):
            gqsgd.Communicator.join(gqsgd.local_id(), 0, [0], **OPTIONS)


def test_a_closed_communicator_is_no_newcomer():
    closed, living = gqsgd.Communicator.local(2, **OPTIONS)
    closed.close()
    unique_id = gqsgd.local_id()
    with ThreadPoolExecutor(1) as threads:
        survivor = threads.submit(living.reconfigure, unique_id, 0, [1, -1])
        with pytest.raises(gqsgd.BadHandle):
            closed.reconfigure(unique_id, 1, [1, -1])
        with gqsgd.Communicator.join(unique_id, 1, [1, -1], **OPTIONS) as newcomer:
            assert newcomer.size == 2
        survivor.result().close()
    living.close()


def test_a_result_is_put_only_where_it_fits():
    old = gqsgd.Communicator.local(2, **OPTIONS)
    out = np.zeros(500, np.float32)

    def interrupted():
        with pytest.raises(gqsgd.GqsgdError):
            old[0].allreduce(out, Q, out=out)

    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(interrupted)
        while old[0].stats("calls")["calls"] == 0:
            time.sleep(0.001)
        old[1].abort()
        old[1].close()
        call.result()
    for wrong in (np.zeros(499, np.float32), np.zeros(250), np.zeros(1000, np.float16)):
        with pytest.raises(gqsgd.InvalidArgument, match="that was interrupted 500 of float32"):
            old[0].shrink(out=wrong)
    with pytest.raises(gqsgd.InvalidArgument, match="read-only"):
        old[0].shrink(out=np.broadcast_to(np.float32(0), 1))
    with pytest.raises(TypeError, match="list"):
        old[0].shrink(out=[0.0] * 500)
    shrunk = old[0].shrink(out=out)
    assert (shrunk.members, shrunk.calls) == ([0], "repeat")
    shrunk.comm.close()
    old[0].close()


def test_survivors_shrink_and_go_on_with_the_bits_of_a_simulation():
    old = gqsgd.Communicator.local(3, stream_id=4, **OPTIONS)
    old[0].counter = 11
    old[1].close()
    assert old[2].revoke() == [1]
    values = np.random.default_rng(0).standard_normal((2, 500), np.float32)
    recv = np.zeros(500, np.float32)

    def rank(k):
        comm, members, calls = old[k].shrink(recv if k == 0 else None)
        with comm:
            assert (members, calls, comm.counter) == ([0, 2], "repeat", 11)
            return comm.allreduce(values[comm.rank], Q)

    expected = gqsgd.simulate(list(values), Q, step=11, stream_id=4)
    with ThreadPoolExecutor(2) as threads:
        for result in threads.map(rank, [0, 2]):
            np.testing.assert_array_equal(result, expected)
    with pytest.raises(gqsgd.Revoked, match="has been shrunk before"):
        old[0].shrink()
    with pytest.raises(gqsgd.InvalidArgument, match="contiguous"):
        old[0].shrink(np.zeros(10, np.float32)[::2])
    for comm in old:
        comm.close()
