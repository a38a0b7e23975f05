"""tools/evidence: contenders are means, times are those of gqsgd-plan, and a small study."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

SHAPES = [(40, 30), (40,), (8, 4, 3, 3), (7,)]
COUNT = sum(int(np.prod(shape)) for shape in SHAPES)
TIMEOUT_S = 500


@pytest.fixture(autouse=True)
def paths(root, library, monkeypatch):
    for folder in ("tools", "bindings/python", "reference"):
        monkeypatch.syspath_prepend(str(root / folder))


def gradients(seed, rank_count=4):
    """Of ranks that have half of their values in common."""
    random = np.random.default_rng(seed)
    return (random.standard_normal(COUNT)
            + random.standard_normal((rank_count, COUNT))).astype(np.float32)


def test_the_mean_of_all_steps_of_every_contender_comes_near_the_mean_gradient():
    """Of the same gradients in every step: what is unbiased, or adds what it has lost, comes near;
    what rounds to nearest stays where its rounding is."""
    from evidence_lib.contenders import ALL, CONTROL

    inputs = gradients(1)
    exact = inputs.mean(axis=0, dtype=np.float64)
    for contender in ALL:
        mean = contender.make(SHAPES, 3)
        total = sum(np.asarray(mean(inputs.copy(), step), np.float64) for step in range(1, 41)) / 40
        error = float(np.square(total - exact).sum() / np.square(exact).sum())
        if contender.kind == CONTROL and "nearest" in contender.name:
            assert error > 0.3, (contender.name, error)
        elif contender.name != "TopK 1 % with error feedback":  # one in a hundred, 40 times
            assert error < 0.2, (contender.name, error)  # PowerSGD of rank 1: 0.12


def test_topk_sends_everything_in_time():
    from evidence_lib.stateful import TopK

    inputs, mean = gradients(2), TopK(0.1)
    total = sum(mean(inputs, step).astype(np.float64) for step in range(400)) / 400
    exact = inputs.mean(axis=0, dtype=np.float64)
    # What is still there is at most as large as what is sent next: 1 / (share steps) of a value.
    assert np.square(total - exact).sum() < 0.01 * np.square(exact).sum()


def test_trainings_of_the_adaptive_study_repeat_themselves():
    from adaptive_study.trainings import last_loss

    losses = [last_loss("clicks", "SGD", "HookState(budget=4)", 1, step_count=2)
              for _ in range(2)]
    assert losses[0] == losses[1] > 0


def test_steps_of_presets_take_what_gqsgd_plan_predicts(build_directory):
    from evidence_lib.times import step_seconds

    done = subprocess.run(
        [build_directory / "tools/gqsgd-plan", "--advise", "--ranks", "8", "--count", "30M",
         "--rate", "1gbit", "--compute", "100"], capture_output=True, text=True, check=True)
    for ours, theirs in (("float32", "none"), ("blocks-8", "blocks-8"), ("rotated-4",) * 2):
        (expected,) = re.findall(rf"^  {theirs} +[\d.]+ +([\d.]+) ", done.stdout, re.MULTILINE)
        assert step_seconds(ours, 8, 30_000_000, 1e9, 0.1) * 1e3 == pytest.approx(
            float(expected), abs=0.06)


def test_measured_steps_are_those_of_the_page():
    from evidence_lib.times import measured_steps

    for title, seconds in measured_steps():
        assert seconds["float32"] > seconds["fp16 hook"] > seconds["blocks-8"] > 0.04, title


@pytest.mark.timeout(600)
def test_two_studies_of_one_seed_have_the_same_digits(root, build_directory, tmp_path):
    def study(folder):
        done = subprocess.run(
            [sys.executable, root / "tools/evidence", "--build", build_directory, "--domains",
             "clicks", "--contenders", "float32", "fp16 hook", "rotated-4",
             "2 bits per tensor, nearest", "--seeds", "1", "--out", tmp_path / folder],
            capture_output=True, text=True, timeout=TIMEOUT_S, env=dict(os.environ))
        assert done.returncode == 0, done.stderr
        results = json.loads((tmp_path / folder / "clicks.json").read_text())["results"]
        return done.stdout, {key: run["curve"] for key, run in results.items()}

    page, curves = study("first")
    assert curves == study("second")[1]
    assert "## Where not to use it" in page
    control, _ = re.findall(r"^\| 2 bits per tensor, nearest \| (.*?) \|", page, re.MULTILINE)
    assert control.startswith("**no**")
    assert {path.name for path in (tmp_path / "first").glob("*.svg")} == {
        "evidence_curves.svg", "evidence_speedup.svg", "evidence_map.svg"}
