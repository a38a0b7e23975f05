"""tools/torchft_hosts: replicas on hosts that are network namespaces, two of which are killed and
restarted; and that it sees parameters that differ."""

import json
import os
import subprocess
import sys
from itertools import count

import gqsgd
import pytest
from gqsgd.network import ucx

pytest.importorskip("torchft", reason="torchft is not installed")

WATCHDOG_S = 550


@pytest.fixture
def lib(root, monkeypatch):
    """The modules of the tool."""
    monkeypatch.syspath_prepend(str(root / "tools"))
    from torchft_lib import evaluation, training

    return evaluation, training


def lines_of(steps, quorum, digest="same", replicas=3):
    """What a replica prints of steps of one quorum, a second each."""
    return [{"at_s": float(step), "step": step, "quorum": quorum, "replicas": replicas,
             "committed": True, "digest": f"{digest} {step}"} for step in steps]


def run_of(training, *lines, victim=None, killed_s=None):
    """A run of processes that have printed such lines; one of them was killed."""
    run, numbers = training.Run(), count()
    for each in lines:
        replica = object.__new__(training.Replica)
        replica.number, replica.lines, replica.killed_s = next(numbers), each, None
        run.replicas.append(replica)
    if victim is not None:
        run.replicas[victim].killed_s = killed_s
        run.victims.append(run.replicas[victim])
    return run


def test_equal_parameters_are_found_equal(lib):
    evaluation, training = lib
    run = run_of(training, *[lines_of(range(1, 9), 1) for _ in range(3)])
    found = evaluation.equality(run)
    assert (found.compared, found.different, found.repeated) == (8, [], 0)
    assert evaluation.steps_by_replicas(run) == {3: 8}


@pytest.mark.parametrize("place", range(8))
def test_one_step_that_differs_is_found(lib, place):
    evaluation, training = lib
    replicas = [lines_of(range(1, 9), 1) for _ in range(3)]
    replicas[1][place]["digest"] = "another"
    found = evaluation.equality(run_of(training, *replicas, victim=1, killed_s=8.5))
    assert [sentence.partition(":")[0] for sentence in found.different] == [f"step {place + 1}"]


def test_a_step_that_differs_between_quorums_is_found(lib):
    evaluation, training = lib
    run = run_of(training, lines_of(range(1, 5), 1), lines_of(range(1, 5), 1),
                 lines_of(range(4, 6), 2, "after"))
    assert len(evaluation.equality(run).different) == 1


def test_the_last_step_of_a_victim_may_be_made_again_by_the_others(lib):
    evaluation, training = lib
    victim = lines_of(range(1, 5), 1)
    others = [lines_of(range(1, 4), 1) + lines_of(range(4, 8), 2, "without it", replicas=2)
              for _ in range(2)]
    run = run_of(training, victim, *others, victim=0, killed_s=3.9)
    found = evaluation.equality(run)
    assert (found.different, found.repeated) == ([], 1)
    assert evaluation.seconds_to_next_step(run) == pytest.approx([0.1])
    # Had it not been the last one before a death, it would be a step with two outcomes.
    assert len(evaluation.equality(run_of(training, victim, *others)).different) == 1


@pytest.mark.timeout(WATCHDOG_S + 40)
def test_two_replicas_are_killed_and_restarted_and_all_have_the_same_parameters(
        network, root, build_directory, tmp_path):
    try:
        ucx.report()
    except gqsgd.Unsupported as error:
        pytest.skip(str(error))
    process = subprocess.Popen(
        [sys.executable, root / "tools/torchft_hosts", "--build", build_directory, "--kills", "2",
         "--every", "3", "--width", "16", "--held-out-every", "20", "--out", tmp_path],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        output, errors = process.communicate(timeout=WATCHDOG_S)
    finally:
        process.terminate()
        process.wait()
    assert process.returncode == 0, output + errors
    cells = dict(line.strip("| ").split(" | ") for line in output.splitlines()
                 if line.startswith("| ") and line.count("|") == 3 and not line.startswith("|  |"))
    assert cells["kills"] == "2"
    assert int(cells["of these, steps at which the parameters differ"]) == 0
    assert int(cells["steps of which two replicas or more have parameters"].replace(",", "")) > 50
    started = sorted(path.name for path in (tmp_path / "kills").glob("*.jsonl"))
    assert [name.split("_")[1] for name in started] == ["0.jsonl", "1.jsonl", "2.jsonl", "0.jsonl",
                                                        "1.jsonl"]
    first, last = ((tmp_path / "kills" / name).read_text().splitlines()[0]
                   for name in (started[0], started[-1]))
    assert json.loads(first)["quorum"] < json.loads(last)["quorum"]
    hosts = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    assert f"gqsgd{process.pid}" not in hosts.stdout
