"""How ranks agree through a store: decisions, failures, ranks that do not come."""

import threading
import time

import gqsgd
import pytest
import torch.distributed as dist
from gqsgd.torch.rendezvous import rendezvous


def on_ranks(size, work):
    results = [None] * size

    def run(rank):
        try:
            results[rank] = work(rank)
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def said_by_all(said):
    return {"names": [each["name"] for each in said]}


def test_rank_0_decides_from_what_all_say():
    store = dist.HashStore()
    for size in (3, 1, 4, 3):  # a store may have seen other groups
        found = on_ranks(
            size, lambda rank, n=size: rendezvous(store, rank, n, {"name": rank}, said_by_all))
        assert found == [{"names": list(range(size))}] * size


def test_what_rank_0_refuses_is_raised_on_all():
    def refuse(said):
        raise gqsgd.Unsupported("no such thing here")

    store = dist.HashStore()
    found = on_ranks(3, lambda rank: rendezvous(store, rank, 3, {}, refuse))
    assert [type(error) for error in found] == [gqsgd.Unsupported] * 3
    assert all("no such thing here" in str(error) for error in found)
    found = on_ranks(3, lambda rank: rendezvous(store, rank, 3, {"name": 1}, said_by_all))
    assert found[2]["names"]


def test_what_fails_on_rank_0_in_another_way_is_a_remote_error():
    def fail(said):
        raise ImportError("no library")

    store = dist.HashStore()
    found = on_ranks(2, lambda rank: rendezvous(store, rank, 2, {}, fail))
    assert [type(error) for error in found] == [ImportError, gqsgd.RemoteError]
    assert "no library" in str(found[1])


@pytest.mark.parametrize(("absent", "said"), [(0, "rank 0 has not come"),
                                              (2, "rank 2 has not come")])
def test_a_rank_that_does_not_come_is_named_in_time(absent, said):
    store = dist.HashStore()

    def work(rank):
        return None if rank == absent else rendezvous(store, rank, 3, {}, dict, timeout_ms=300)

    for rank, error in enumerate(on_ranks(3, work)):
        if rank != absent:
            assert isinstance(error, gqsgd.Timeout) and said in str(error)


def test_a_decision_that_does_not_come_is_reported_of_rank_0():
    """All ranks have come, rank 0 among them."""
    store = dist.HashStore()

    def work(rank):
        decide = (lambda said: time.sleep(1)) if rank == 0 else None
        return rendezvous(store, rank, 2, {}, decide, timeout_ms=300)

    late = on_ranks(2, work)[1]
    assert isinstance(late, gqsgd.Timeout) and "rank 0 has not decided" in str(late)


class Observed:
    """A liveness that sees a rank go once it was asked often enough."""

    diagnosis = "it is late"

    def __init__(self, look_count):
        self.left = look_count

    def look(self):
        self.left -= 1
        if self.left == 0:
            raise gqsgd.PeerLost("rank 1 is gone")


def test_a_rank_that_is_seen_to_go_is_not_waited_for():
    store = dist.HashStore()
    started_s = time.monotonic()
    found = on_ranks(3, lambda rank: None if rank == 1 else rendezvous(
        store, rank, 3, {}, dict, timeout_ms=3_600_000, liveness=Observed(3)))
    assert time.monotonic() - started_s < 600
    for rank in (0, 2):
        assert isinstance(found[rank], gqsgd.PeerLost) and "rank 1 is gone" in str(found[rank])


def test_what_cannot_be_told_is_reported():
    store = dist.HashStore()
    with pytest.raises(gqsgd.Timeout, match="rank 1 has not come .*communicator: it is late"):
        rendezvous(store, 0, 2, {}, dict, timeout_ms=100, liveness=Observed(10**6))
