"""How ranks agree through a store: decisions, failures, ranks that do not come."""

import threading

import gqsgd
import pytest
import torch.distributed as dist
from gqsgd.torch.meeting import meet


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
            size, lambda rank, n=size: meet(store, rank, n, {"name": rank}, said_by_all))
        assert found == [{"names": list(range(size))}] * size


def test_what_rank_0_refuses_is_raised_on_all():
    def refuse(said):
        raise gqsgd.Unsupported("no such thing here")

    store = dist.HashStore()
    found = on_ranks(3, lambda rank: meet(store, rank, 3, {}, refuse))
    assert [type(error) for error in found] == [gqsgd.Unsupported] * 3
    assert all("no such thing here" in str(error) for error in found)
    assert on_ranks(3, lambda rank: meet(store, rank, 3, {"name": 1}, said_by_all))[2]["names"]


def test_what_fails_on_rank_0_in_another_way_is_a_remote_error():
    def fail(said):
        raise ImportError("no library")

    store = dist.HashStore()
    found = on_ranks(2, lambda rank: meet(store, rank, 2, {}, fail))
    assert [type(error) for error in found] == [ImportError, gqsgd.RemoteError]
    assert "no library" in str(found[1])


@pytest.mark.parametrize(("absent", "said"), [(0, "rank 0 has not decided"),
                                              (2, "rank 2 has not come")])
def test_a_rank_that_does_not_come_is_named_in_time(absent, said):
    store = dist.HashStore()

    def work(rank):
        return None if rank == absent else meet(store, rank, 3, {}, dict, timeout_ms=300)

    for rank, error in enumerate(on_ranks(3, work)):
        if rank != absent:
            assert isinstance(error, gqsgd.Timeout) and said in str(error)
