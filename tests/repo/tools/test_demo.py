"""tools/demo's training: it learns, it reports, and it ends cleanly whatever happens to it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[3] / "tools"))
from demo_lib.optimizers import OPTIMIZERS  # noqa: E402

TIMEOUT_S = 60


@pytest.fixture
def demo(root, library, tmp_path):
    """demo(option...) -> a started demo in a session of its own, so that strays can be found."""
    def start(*options):
        path = os.pathsep.join([str(root / "bindings/python"), str(root / "tools")])
        return subprocess.Popen(
            [sys.executable, "-m", "demo_lib", "--out", tmp_path, "--data", "digits", "--seeds",
             "1", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            # As from a terminal: a test run in the background would pass Ctrl-C on as ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            env={**os.environ, "PYTHONPATH": path, "GQSGD_LIBRARY": str(library)})

    return start


def finish(process):
    """(exit status, stdout, stderr); fails if a process of its session is left."""
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    # Python's own resource tracker ends by itself, once it sees that its parent has gone.
    deadline = time.monotonic() + 5
    while (strays := alive_in_session(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert strays == []
    return process.returncode, out, err


def alive_in_session(session):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        if int(its_session) == session and state not in "ZX":
            found.append(stat.parent.name)
    return found


def test_every_preset_learns_and_sends_fewer_bytes(demo, tmp_path):
    status, out, err = finish(demo("--steps", "300"))
    assert status == 0, err
    rows = [line.split() for line in out.splitlines() if line.startswith("digits, sgd ")]
    blocks = 6 * 8 / 128 / 2  # norms there and back, scales back: 2 bytes each for 128 values
    padded = 4864 / 4810  # rotations of 4096 + 512 + 256 values
    bits = {"none": 32, "bf16": 16, "blocks-8": 8 + blocks, "rotated-8": (8 + blocks) * padded,
            "adaptive-4": 4 + blocks, "rice-4": 4 + blocks, "paper-gl8": 8, "paper-gl4": 4}
    assert [row[2] for row in rows] == list(bits)
    for row, its_bits in zip(rows, bits.values(), strict=True):
        assert float(row[3]) > 90, out  # chance is 10
        assert row[-1] == "identical"
        # 2 (n - 1) / n codes per value; the padding of shards adds a few bytes.
        bytes_sent = int(row[row.index("%") + 1].replace(",", ""))
        assert bytes_sent == pytest.approx(2 * 3 / 4 * 4810 * its_bits / 8, rel=0.02)
    errors = [float(row[-2]) for row in rows]
    assert errors[0] < 1e-12 < min(errors[1:]), out
    assert max(errors[1:6]) < 1, out
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_a_killed_rank_ends_the_job_with_an_account(demo):
    status, _, err = finish(demo("--steps", "100", "--kill", "2"))
    assert status == 1
    assert "rank 2: died, exit code -9" in err
    for rank in (0, 1, 3):
        assert f"rank {rank}: PeerLost" in err, err


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_nothing_behind(demo, number, status):
    process = demo("--steps", "100000", "--presets", "none")
    assert "trainings" in process.stdout.readline()
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # a terminal's Ctrl-C goes to the whole group
    else:
        process.send_signal(number)
    assert finish(process)[0] == status


def test_help_needs_no_packages_and_names_the_optimisers(root):
    """--help comes before anything is installed or built, and so from a module of its own."""
    done = subprocess.run([root / "tools/demo", "--seeds", "2", "--help"], capture_output=True,
                          text=True, timeout=TIMEOUT_S, env={**os.environ, "PYTHONPATH": ""})
    assert done.returncode == 0 and done.stdout.startswith("usage: tools/demo ")
    accepted = re.search(r"--optimizers \{(.*?)\}", done.stdout).group(1)
    assert accepted.split(",") == list(OPTIMIZERS)


@pytest.mark.parametrize("tool", ["build_docs", "test"])
def test_help_starts_nothing(root, tool):
    done = subprocess.run([root / "tools" / tool, "--help"], capture_output=True, text=True,
                          timeout=TIMEOUT_S)
    assert done.returncode == 0 and "build/" in done.stdout
    refused = subprocess.run([root / "tools" / tool, "--hepl"], capture_output=True, text=True,
                             timeout=TIMEOUT_S)
    assert refused.returncode == 1 and "unknown option '--hepl'" in refused.stderr


def test_an_unknown_preset_is_an_error_with_its_sentence(demo):
    status, out, err = finish(demo("--steps", "5", "--presets", "none", "no-such-preset"))
    assert status == 1 and out == ""  # before the first training
    assert "no-such-preset" in err and "Traceback" not in err


def test_one_process_sends_nothing_and_has_a_table(demo):
    status, out, err = finish(demo("--steps", "5", "--ranks", "1", "--presets", "none",
                                   "blocks-8"))
    assert status == 0, err
    assert len(re.findall(r"^digits, sgd +\S+ .* % +0 +- +", out, re.MULTILINE)) == 2, out


@pytest.mark.parametrize("options, sentence", [
    (["--ranks", "0"], "argument --ranks: it is 0; at least 1"),
    (["--seeds", "0"], "argument --seeds: it is 0; at least 1"),
    (["--steps", "0"], "argument --steps: it is 0; at least 1"),
    (["--kill", "4"], "--kill: there is no rank 4 among 4"),
])
def test_numbers_that_are_none_are_refused(demo, options, sentence):
    status, out, err = finish(demo(*options))
    assert status == 2 and sentence in err and out == ""
