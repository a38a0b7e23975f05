"""tools/diloco_table: its emulated fp8, its trainings with virtual sites and between namespaces."""

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

TIMEOUT_S = 500


@pytest.fixture(autouse=True)
def paths(root, monkeypatch):
    for folder in ("tools", "bindings/python", "reference", "examples/python"):
        monkeypatch.syspath_prepend(str(root / folder))


def test_emulated_fp8_has_the_error_of_its_two_roundings():
    from diloco_lib import fp8

    generator = torch.Generator().manual_seed(1)
    shapes = [(7, 33), (5,), (64, 8)]
    for rank_count in (1, 2, 3):
        ranks = [[torch.randn(shape, generator=generator) for shape in shapes]
                 for _ in range(rank_count)]
        sums = fp8.simulated(ranks)
        for number, total in enumerate(sums):
            exact = sum(own[number] for own in ranks)
            # e4m3 rounds to within 1/16 of a value, and below its least normal number, 2^-6 of
            # 448, to 2^-10 of the row's largest value over 448: once up, once down.
            rows = [own[number].abs().view(len(total), -1) for own in ranks]
            scale = sum(row.amax(dim=1, keepdim=True) for row in rows)
            limit = 2 / 16 * sum(rows) + 2 * scale * 2**-10 / 448 * 1.1
            wrong = (total - exact).abs().view(len(total), -1)
            assert (wrong <= limit * (1 + 1 / 16)).all(), (rank_count, number)
        assert rank_count == 1 or not torch.equal(sums[0], sum(own[0] for own in ranks))


def test_emulated_fp8_sends_what_its_rows_take():
    from diloco_lib import fp8

    tensors = [torch.ones(8, 33), torch.ones(5)]
    # Of 2 ranks each has 4 rows of 4 + 36 bytes, and 3 rows, one of them padding, of 4 + 4.
    assert fp8.packed(tensors, 2).shape == (2, 4 * 40 + 3 * 8)


def test_a_step_in_4_bits_is_near_that_of_floats_and_the_control_is_not(library):
    from diloco_lib.contenders import CONTROL, FLOAT32, simulated

    deltas = list(torch.randn(3, 20_000, generator=torch.Generator().manual_seed(2)))
    exact = simulated(FLOAT32, deltas, [], 0, 0)

    def error(name):
        return float(((simulated(name, deltas, [], 0, 0) - exact)**2).sum() / (exact**2).sum())

    assert error("rotated-4") < 0.05 < 0.5 < error(CONTROL)


@pytest.mark.timeout(600)
def test_a_small_table_between_namespaces(network, root, build_directory, tmp_path):
    pytest.importorskip("torchft")
    command = [sys.executable, root / "tools/diloco_table", "--build", build_directory, "--width",
               "16", "--seeds", "2", "--inner-steps", "2", "--outer-steps", "2", "--sites", "2",
               "--rate", "500mbit", "--rounds", "2", "--out", tmp_path, "--contenders", "float32",
               "rotated-4", "--parts", "losses", "network", "torchft-times"]
    for _ in range(2):  # the second time from what is there
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S,
                              env=dict(os.environ))
        assert done.returncode == 0, done.stderr
    assert " left: " not in done.stderr
    for title in ("## Loss", "## Outer steps: 2 sites, 500 Mbit/s", "## torchft's DiLoCo: 3 sites"):
        assert f"\n{title}" in done.stdout
    run = json.loads((tmp_path / "network.json").read_text())["results"]["2/500mbit"]
    sent = {name: row["bytes"][0] for name, row in run["contenders"].items()}
    assert sent["float32"] > 1.9 * sent["float16"] > 3.8 * sent["blocks-8"] * 0.9
    assert 6.5 < sent["float32"] / sent["rotated-4"] < 8
