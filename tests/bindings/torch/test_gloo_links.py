"""The group transport between threads of one process: completion, peers that go, and what is left
when it is closed. A rank dies here by breaking its connections without a notice."""

import gc
import sys
import threading
import time

import gqsgd
import pytest
import torch
import torch.distributed as dist
from gqsgd.torch.gloo_links import GlooLinks
from gqsgd.torch.group_transport import GroupTransport

FOR_EVER_MS = 600_000  # longer than any test: what comes in time was not a timeout
JOIN_TIMEOUT_S = 60
Q = gqsgd.Quantizer()


def on_ranks(size, work):
    """`work(rank)` on a thread for each rank; results or exceptions."""
    results = [None] * size

    def run(rank):
        try:
            results[rank] = work(rank)
        except BaseException as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_TIMEOUT_S)
        assert not thread.is_alive()
    return results


@pytest.fixture
def gloo(monkeypatch):
    """A function: Gloo groups of so many ranks, all in this process."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")

    def groups_of(size):
        store = dist.HashStore()
        return on_ranks(size, lambda rank: dist.ProcessGroupGloo(store, rank, size))

    yield groups_of
    assert own_threads() == []


def own_threads():
    return [each.name for each in threading.enumerate() if "gqsgd group" in each.name]


def die(links):
    """What the kernel does to the connections of a process that is killed."""
    links._break(links._peers[0])


def mean_or_error(comm, values):
    try:
        return comm.allreduce(values, Q, schedule="ring")
    except gqsgd.GqsgdError as error:
        return error
    finally:
        comm.close()  # at once, so that ranks which give up look like the cause


def transports_of(gloo, size):
    return [GroupTransport(group) for group in gloo(size)]


def test_close_ends_all_threads_and_what_they_wait_for(gloo):
    transports = transports_of(gloo, 3)
    waiting = transports[0].receive(1, memoryview(bytearray(10)))
    assert transports[0].test(waiting) is None
    assert len(own_threads()) == 3 * 5
    transports[0].close()  # the others stay and say nothing
    assert [name for name in own_threads() if "of rank 0" in name] == []
    for transport in transports[1:]:
        transport.close()
    assert own_threads() == []


def test_a_transport_that_is_dropped_ends_its_threads(gloo):
    transports = transports_of(gloo, 2)
    assert own_threads()
    del transports
    gc.collect()
    assert own_threads() == []


def test_idle_threads_keep_no_operation_of_gloo(gloo):
    transports = transports_of(gloo, 2)
    requests = [(transports[0], transports[0].send(1, memoryview(b"12345"))),
                (transports[1], transports[1].receive(0, memoryview(bytearray(5))))]
    for transport, request in requests:
        while transport.test(request) is None:
            transport.progress(0.1)
    time.sleep(0.2)  # a thread reports an operation before it waits for the next one
    held = [value for frame in sys._current_frames().values()
            for value in frame.f_locals.values() if isinstance(value, dist.Work)]
    for transport in transports:
        transport.close()
    assert len(held) == 2, held  # those that wait for notices


@pytest.mark.parametrize("size", [2, 4])
def test_a_rank_that_dies_between_calls_is_named_by_all(gloo, size):
    transports = transports_of(gloo, size)
    comms = [gqsgd.Communicator.custom(each, timeout_ms=FOR_EVER_MS) for each in transports]
    assert all(isinstance(each, torch.Tensor) for each in on_ranks(
        size, lambda rank: comms[rank].allreduce(torch.ones(9000), Q)))
    die(transports[1]._links)

    def survive(rank):
        return mean_or_error(comms[rank], torch.ones(9000)) if rank != 1 else None

    for rank, error in enumerate(on_ranks(size, survive)):
        if rank != 1:
            assert isinstance(error, gqsgd.Backend) and "rank 1 is gone" in str(error)
            assert isinstance(error.__cause__, gqsgd.PeerLost)
    comms[1].close()


def test_a_rank_that_dies_during_a_call_is_named_by_all(gloo):
    transports = transports_of(gloo, 3)
    comms = [gqsgd.Communicator.custom(each, timeout_ms=FOR_EVER_MS) for each in transports]

    def work(rank):
        if rank != 1:
            return mean_or_error(comms[rank], torch.ones(9000))
        time.sleep(0.3)  # the others are waiting by now, or soon
        return die(transports[1]._links)

    first, _, last = on_ranks(3, work)
    for error in (first, last):
        assert "rank 1 is gone" in str(error), error
    comms[1].close()


def test_a_rank_that_gives_up_reports_the_cause(gloo):
    """Rank 2 gets a notice only from rank 0, which has lost rank 1."""
    links = [GlooLinks(group) for group in gloo(3)]
    links[0]._tell(1)
    with pytest.raises(gqsgd.PeerLost, match="rank 1 is gone: so rank 0 reports"):
        until_failure(links[2])
    for each in links:
        each.close()


def until_failure(links):
    end_s = time.monotonic() + JOIN_TIMEOUT_S
    while time.monotonic() < end_s:
        links.progress(0.05)


def test_a_rank_that_closes_fails_only_what_needs_it(gloo):
    transports = transports_of(gloo, 3)
    transports[1].close()
    time.sleep(0.2)  # twice the grace
    for transport in (transports[0], transports[2]):
        transport.progress(0.01)
    with pytest.raises(gqsgd.PeerLost, match="rank 1 is gone: it has closed its communicator"):
        transports[0].receive(1, memoryview(bytearray(3)))
        until_failure(transports[0]._links)
    for transport in transports:
        transport.close()


def test_a_send_is_done_when_its_bytes_are_on_their_way(gloo):
    """So the last call of a rank ends after its bytes have left, and it may close at once."""
    transports = transports_of(gloo, 2)
    sent = transports[0].send(1, memoryview(b"123"))
    time.sleep(0.1)
    assert transports[0].test(sent) is None  # rank 1 has no place for them
    buffer = bytearray(3)
    received = transports[1].receive(0, memoryview(buffer))
    while transports[0].test(sent) is None:
        transports[0].progress(0.1)
    transports[0].close()
    while transports[1].test(received) is None:
        transports[1].progress(0.1)
    assert buffer == b"123"
    transports[1].close()
