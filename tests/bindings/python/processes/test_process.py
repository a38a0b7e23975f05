"""Ranks that are processes: results, failures, and forks."""

from pathlib import Path

import gqsgd
import process_rank
import pytest
from rank_processes import run_processes

PROGRAM = Path(process_rank.__file__)


def test_unique_ids_are_256_bytes_and_unique():
    ids = {gqsgd.unique_id() for _ in range(20)}
    assert {len(unique_id) for unique_id in ids} == {256}
    assert len(ids) == 20


@pytest.mark.parametrize("unique_id", [b"", b"x" * 255, b"x" * 257])
def test_a_unique_id_of_another_size_is_refused(unique_id):
    with pytest.raises(gqsgd.InvalidArgument, match=f"{len(unique_id)} bytes, not 256"):
        gqsgd.Communicator.process(unique_id, 0, 1)


@pytest.mark.parametrize(("rank", "size"), [(2, 2), (-1, 2), (0, 0), (0, 2**32)])
def test_impossible_ranks_are_refused(rank, size):
    with pytest.raises(gqsgd.InvalidArgument):
        gqsgd.Communicator.process(gqsgd.unique_id(), rank, size)


def test_a_missing_rank_is_named():
    with pytest.raises(gqsgd.Timeout, match="1"):
        gqsgd.Communicator.process(gqsgd.unique_id(), 0, 2, timeout_ms=100)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_processes_get_the_bits_of_threads(size, python_environment):
    processes = run_processes(PROGRAM, size, "mean", python_environment)
    threads = gqsgd.run_local(size, process_rank.mean)
    assert set(processes) == {(0, bits) for bits in threads}
    assert len(set(threads)) == 1


def test_a_counter_set_from_a_checkpoint_resumes_bit_for_bit(python_environment):
    resumed = run_processes(PROGRAM, 2, "resumed_mean", python_environment)
    assert resumed == [
        (0, process_rank_bits[8000:]) for process_rank_bits in gqsgd.run_local(2, process_rank.mean)
    ]


def test_codes_are_read_where_the_peer_wrote_them(python_environment):
    assert run_processes(PROGRAM, 2, "copied", python_environment) == [(0, b"0"), (0, b"0")]


def test_a_dead_rank_is_named_by_the_others(python_environment):
    ended = run_processes(PROGRAM, 3, "death", python_environment)
    assert ended[1] == (-9, b"")
    for rank in (0, 2):
        assert ended[rank][1].startswith(b"PEER_LOST")
        assert b"rank 1" in ended[rank][1]


def test_processes_measure_when_they_are_made(python_environment):
    first, *others = run_processes(PROGRAM, 3, "measured", python_environment)
    assert others == [first] * 2
    assert first[0] == 0 and first[1].startswith(b"latency_ns=")


def test_a_rank_that_dies_while_others_measure_is_named(python_environment):
    ended = run_processes(PROGRAM, 3, "death_in_measuring", python_environment)
    assert ended[1] == (-9, b"")
    for rank in (0, 2):
        assert ended[rank][1].startswith(b"PEER_LOST"), ended[rank]
        assert b"rank 1" in ended[rank][1]


def test_a_child_is_refused_and_its_parent_goes_on(python_environment):
    assert run_processes(PROGRAM, 2, "forked", python_environment) == [(0, b"forked")] * 2
