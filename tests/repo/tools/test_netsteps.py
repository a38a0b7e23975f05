"""tools/netsteps: what a link can do, and training steps over it."""

import json
import os
import subprocess
import sys

import pytest

TIMEOUT_S = 110


def test_constants_of_a_link(network):
    from net_lib import link

    with network(2, "100mbit") as net:
        found = link.constants(net)
    # 80 ns by the rate; headers of Ethernet, IP and TCP take 4.5 % of full frames. A burst may pass
    # at once, and a loaded machine may be late.
    assert 75 < found["byte_ns"] < 160
    assert 0 < found["latency_ns"] < 50e6
    assert 0 < found["message_ns"] < 5e6


def test_steps_of_every_contender(network, root, build_directory, tmp_path):
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, root / "tools/netsteps", "--build", build_directory, "--hosts", "2",
         "--rate", "1gbit", "--steps", "3", "--width", "100", "--compute-ms", "20",
         "--preset", "paper-gl8",
         "--json", str(tmp_path / "steps.json")],
        capture_output=True, text=True, timeout=TIMEOUT_S, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    run = json.loads((tmp_path / "steps.json").read_text())["runs"][0]
    assert [row["name"] for row in run["rows"]] == ["Gloo float32", "paper-gl8"]
    for row in run["rows"]:
        # Nothing overlaps: a step is not shorter than compute, nor a prediction.
        assert min(row["seconds"], row["predicted_seconds"]) > 0.020
        assert row["losses"][0] == run["rows"][0]["losses"][0] and row["name"] in done.stdout
    assert run["rows"][1]["predicted_seconds"] < run["rows"][0]["predicted_seconds"]


def test_steps_of_hooks_whose_buckets_travel_during_backward(network, root, build_directory,
                                                             tmp_path):
    pytest.importorskip("torch")
    hooks = ["DDP", "fp16", "PowerSGD rank 1", "blocks-8, network"]
    done = subprocess.run(
        [sys.executable, root / "tools/netsteps", "--build", build_directory, "--hosts", "2",
         "--rate", "1gbit", "--steps", "3", "--width", "100", "--compute-ms", "20", "--overlap",
         "--hooks", ";".join(hooks), "--json", str(tmp_path / "steps.json")],
        capture_output=True, text=True, timeout=TIMEOUT_S, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    run = json.loads((tmp_path / "steps.json").read_text())["runs"][0]
    assert [row["name"] for row in run["rows"]] == hooks
    for row in run["rows"]:
        assert row["seconds"] > 0.020 and row["name"] in done.stdout
