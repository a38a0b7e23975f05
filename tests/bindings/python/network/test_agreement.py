"""Groups between hosts: all ranks get a communicator, or all raise the same error. Ranks are
threads, and stand-ins replace the calls of the library."""

import threading

import gqsgd
import pytest
from gqsgd.network import agreement

SIZE = 3


class Table:
    """What ranks that are threads have for an agreement."""

    def __init__(self):
        self._barrier = threading.Barrier(SIZE, timeout=20)
        self._said, self._result = [None] * SIZE, None

    def agree_of(self, rank):
        def agree(own, decide):
            self._said[rank] = own
            self._barrier.wait()
            if rank == 0:
                try:
                    self._result = decide(self._said)
                except Exception as error:
                    self._result = error
            self._barrier.wait()
            if isinstance(self._result, Exception):
                raise self._result
            return self._result

        return agree


class Comm:
    """A communicator that is only looked at."""

    def __init__(self):
        self.is_open = True

    def close(self):
        self.is_open = False


@pytest.fixture
def connect_all(monkeypatch):
    """Has all ranks connect: `opened` is called with a rank for its group of one, `joined` for the
    group of all; both may raise. Returns what each rank got, and the communicators that were made
    for the group of all."""

    def run(opened=lambda rank: None, joined=lambda rank: None, network_id=lambda: None):
        made, results, table = [], [None] * SIZE, Table()

        def network(unique_id, rank, size, **options):
            assert options["timeout_ms"] == 7
            if size == 1:
                assert (unique_id, rank) == (b"own", 0)
                opened(options["stream_id"])
                return Comm()
            assert (unique_id, size) == (b"of all", SIZE)
            joined(rank)
            made.append(Comm())
            return made[-1]

        def make_id(**options):
            if not options:
                return b"own"
            network_id()
            return b"of all"

        monkeypatch.setattr(agreement, "network_id", make_id)
        monkeypatch.setattr(agreement.Communicator, "network", network)

        def work(rank):
            options = {"timeout_ms": 7, "stream_id": rank}  # which tells the groups of one apart
            group = agreement.NetworkGroup(
                table.agree_of(rank), rank, SIZE, {"port": 7}, options)
            try:
                results[rank] = group.connect()
            except Exception as error:
                results[rank] = error

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(SIZE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results, made

    return run


def failing(rank, error):
    """A function that raises `error` on one rank."""

    def fail(own):
        if own == rank:
            raise error

    return fail


def test_all_ranks_get_a_communicator(connect_all):
    results, made = connect_all()
    assert set(results) == set(made) and len(made) == SIZE
    assert all(comm.is_open for comm in made)


def test_a_rank_without_ucx_is_named_on_all_before_any_joins(connect_all):
    results, made = connect_all(opened=failing(1, gqsgd.Unsupported("no UCX")))
    assert made == []
    assert [(type(each), str(each)) for each in results] == [
        (gqsgd.Unsupported, "rank 1: no UCX")] * SIZE


@pytest.mark.parametrize(("error", "kind"), [
    (gqsgd.Timeout("rank 0 is late"), gqsgd.Timeout),
    (gqsgd.Unsupported("no libcrypto"), gqsgd.Unsupported),
    (OSError("no route"), gqsgd.RemoteError),
])
def test_what_fails_on_one_rank_is_raised_on_all(connect_all, error, kind):
    results, made = connect_all(joined=failing(2, error))
    assert len(made) == SIZE - 1 and not any(comm.is_open for comm in made)
    assert [type(each) for each in results] == [kind] * SIZE
    assert all(str(each).startswith("rank 2: ") for each in results)
    assert results[2].__cause__ is error


def test_another_error_goes_before_a_missing_library(connect_all):
    """Else some ranks would go on over Gloo and others not."""

    def fail(rank):
        raise [gqsgd.Unsupported("no libcrypto"), gqsgd.PeerLost("rank 0 is gone"),
               gqsgd.Timeout("rank 0 is late")][rank]

    results, _ = connect_all(joined=fail)
    assert [(type(each), str(each)) for each in results] == [
        (gqsgd.PeerLost, "rank 1: rank 0 is gone")] * SIZE


def test_what_the_library_has_told_all_stays_as_it_is(connect_all):
    def fail(rank):
        raise gqsgd.Timeout("missing ranks: 7")

    results, _ = connect_all(joined=fail)
    assert [(type(each), str(each)) for each in results] == [
        (gqsgd.Timeout, "missing ranks: 7")] * SIZE


def test_an_address_that_rank_0_refuses_is_raised_on_all(connect_all):
    def refuse():
        raise gqsgd.InvalidArgument("no interface eth7")

    results, made = connect_all(network_id=refuse)
    assert made == [] and [type(each) for each in results] == [gqsgd.InvalidArgument] * SIZE


def test_a_lost_agreement_closes_the_communicator(monkeypatch):
    comm, calls = Comm(), []

    def agree(own, decide):
        calls.append(own)
        if len(calls) == 2:
            raise gqsgd.PeerLost("rank 1 is gone")
        return decide([own])

    monkeypatch.setattr(agreement, "network_id", lambda: b"x" * 256)
    monkeypatch.setattr(agreement.Communicator, "network", lambda *_, **options: comm)
    with pytest.raises(gqsgd.PeerLost, match="rank 1 is gone"):
        agreement.NetworkGroup(agree, 0, 1, {}, {}).connect()
    assert not comm.is_open


def test_a_group_of_one_gets_what_is_not_for_a_group_of_all(monkeypatch):
    seen = []
    monkeypatch.setattr(agreement, "network_id", lambda **options: seen.append(options))
    monkeypatch.setattr(agreement.Communicator, "network",
                        lambda *_, **options: seen.append(options) or Comm())
    options = {"interface": "ib0", "port": 4000, "nodes": [0, 1], "ucx": "/x.so"}
    agreement.NetworkGroup(None, 0, 2, {}, options)._lack()
    assert seen == [{"interface": "ib0"}, {"interface": "ib0", "ucx": "/x.so"}]
