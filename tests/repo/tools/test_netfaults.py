"""tools/netfaults: a few instants on this machine, the same again for a seed; what it calls
wrong."""

import os
import subprocess
import sys
from types import SimpleNamespace

import gqsgd
import pytest
from gqsgd.network import ucx

TIMEOUT_S = 110


@pytest.fixture
def fault_lib(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tools"))
    import fault_lib.instant
    import fault_lib.verdict

    return fault_lib


@pytest.fixture
def netfaults(root, build_directory):
    try:
        ucx.report()
    except gqsgd.Unsupported as error:
        pytest.skip(str(error))

    def run(*options):
        return subprocess.run(
            [sys.executable, root / "tools/netfaults", "--build", build_directory, *options],
            capture_output=True, text=True, timeout=TIMEOUT_S, env=dict(os.environ))

    return run


def test_ranks_that_are_killed_stopped_and_aborted_are_named(netfaults):
    done = netfaults("--no-hosts", "--instants", "10", "--seed", "3", "--slack-ms", "15000")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {line.split("|")[1].strip(): line for line in done.stdout.splitlines() if "|" in line}
    for kind in ("kill", "kill, child lives", "abort", "stop", "destroy", "kill while forming",
                 "stop while forming", "all"):
        assert kind in rows
    assert [cell.strip() for cell in rows["all"].split("|")[2:7]] == ["10", "30", "0", "0", "0"]


def test_a_build_without_the_rank_is_named(netfaults, tmp_path):
    done = netfaults("--build", str(tmp_path))
    assert done.returncode == 2 and "fault-rank is not there" in done.stderr


def test_a_seed_and_a_number_are_one_instant(fault_lib):
    draw = fault_lib.instant.draw
    assert [draw("7", number, 4) for number in range(50)] == [
        draw("7", number, 4) for number in range(50)]
    others = [draw("8", number, 4) for number in range(50)]
    assert others != [draw("7", number, 4) for number in range(50)]
    assert {instant.victim for instant in others} == set(range(4))
    assert all(instant.partner != instant.victim for instant in others)
    kinds = {draw("7", number, 4).kind.name for number in range(14)}
    assert kinds == set(fault_lib.instant.KINDS)
    assert not any(draw("7", number, 4, hosts=False).kind.needs_hosts for number in range(50))


@pytest.mark.parametrize(("sentence", "ranks"), [
    ("rank 2 has died or gone away, as rank 0 saw; rank 1 awaited call 3 of rank 0", {2}),
    ("rank 3 gave up: rank 1 made no progress in the time allowed; rank 0 awaited call 2 of rank 3",
     {1}),
    ("rank 3 gave up: it waited in vain for all other ranks", {3}),
    ("call 2, allreduce: rank 0 waited 1500 ms for ranks 1-2,5 to make this call; they are late",
     {1, 2, 5}),
    ("call 2, allreduce: rank 0 waited 1500 ms for values 0 to 9 from rank 1 (schedule ring, 2 "
     "moves made); rank 1 itself waits for rank 3, which is stopped or too slow", {3}),
    ("call 2, allreduce: rank 0 waited 1500 ms for values 0 to 9 from rank 1 (schedule ring, 2 "
     "moves made); it is stopped or too slow", {1}),
    ("rank 1: rank 0 died, or closed its connection, while the group formed", {0}),
    ("missing ranks: 1, 3; 2 of 4 did not come in the time allowed to rank 0", {1, 3}),
    ("no rank is named here", set()),
])
def test_the_ranks_that_a_sentence_blames(fault_lib, sentence, ranks):
    assert fault_lib.verdict.blamed(sentence) == ranks


def ends_of(fault_lib, instant, at_ns, **others):
    """A group of 4 in which all is as promised, but for `others`: fields by rank."""
    from fault_lib.group import End

    ends = [None if rank == instant.victim else
            End("PEER_LOST", at_ns + 300_000_000, at_ns + 301_000_000, 0, 5,
                f"rank {instant.victim} has died or gone away") for rank in range(4)]
    rank = next(rank for rank in range(4) if rank != instant.victim)
    if others.get("hangs"):
        ends[rank] = None
    elif others:
        ends[rank] = End(**{**ends[rank].__dict__, **others})
    return SimpleNamespace(ends=ends, starts_ns=[at_ns] * 4)


@pytest.mark.parametrize(("others", "found"), [
    ({}, None),
    ({"hangs": True}, "hung"),
    ({"sentence": "rank 9 has died or gone away"}, "wrong"),
    ({"sentence": "something has happened"}, "wrong"),
    ({"status": "OK", "sentence": ""}, "wrong"),
    ({"status": "TIMEOUT"}, "wrong"),
    ({"returned_ns": 2_500_000_000, "destroyed_ns": 2_500_000_000}, "late"),
    ({"destroyed_ns": 2_000_000_000}, "late"),
])
def test_a_hang_a_wrong_name_and_a_late_one_are_found(fault_lib, others, found):
    instant = fault_lib.instant.draw("1", 0, 4)
    assert instant.kind.name == "kill"
    verdict = fault_lib.verdict.judge(instant, ends_of(fault_lib, instant, 0, **others), 0, 1000)
    assert [name for name in ("hung", "wrong", "late") if getattr(verdict, name)] == (
        [found] if found else [])
    assert verdict.is_right() == (found is None)
