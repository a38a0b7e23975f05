"""docs/results/gpu-model.md has what tools/gpu_model predicts of the kernels as they are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
FUSED_FORMATS = {"paper-gl8": 8, "paper-ge8": 8, "paper-gl4": 4, "blocks-8": 8, "none": 32}
SECTOR_BYTES = 32


@pytest.fixture(scope="module")
def fused_counts(commands, build_directory):
    """{(stage, ranks, format): (warp instructions, bytes loaded, bytes stored) of each value}."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        from gpu_lib.model.kernels import ptx_test
    command, environment = ptx_test(build_directory)
    lines = subprocess.run([command[0], "--fused-counts"], check=True, capture_output=True,
                           text=True, env={**os.environ, **environment}).stdout.splitlines()
    found = {}
    for stage, form, _, _, values, _, *counts in (line.split("\t") for line in lines):
        name, _, ranks = stage.removeprefix("fused ").partition(" n=")
        made, loads, stores = (int(count) / int(values) for count in counts)
        found[name, int(ranks), form] = made, SECTOR_BYTES * loads, SECTOR_BYTES * stores
    return found


@pytest.mark.timeout(300)  # the first one counts: 5 s alone
@pytest.mark.parametrize("form, bits", FUSED_FORMATS.items())
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_fused_kernel_moves_the_bytes_of_its_stages(fused_counts, form, bits, ranks):
    def moved(stage):
        return fused_counts[stage, ranks, form][1:]

    code = bits / 8
    blocks = form == "blocks-8"  # norms of 128 values each, of which a warp reads a sector
    norms = SECTOR_BYTES / 512 * ranks if blocks else 0
    scales = SECTOR_BYTES / 512 if blocks else 0
    floats = 0 if form == "none" else 4
    assert moved("norm") == (floats, scales)
    assert moved("quantize") == (4 + norms, code + scales)
    assert moved("reduce_many") == (code + scales / ranks, (code + scales) / ranks)
    assert moved("dequantize") == (code + scales, 4)
    assert fused_counts["beside", ranks, form][1] < 0.1, "what a block does once"


@pytest.mark.parametrize("form", FUSED_FORMATS)
def test_more_ranks_only_add_more(fused_counts, form):
    """Instructions of a shard grow with the operands, the other stages' hardly."""
    few, many = ({stage: fused_counts[stage, ranks, form][0] for stage in
                  ("quantize", "reduce_many", "dequantize")} for ranks in (2, 8))
    assert many["dequantize"] == few["dequantize"]
    assert few["quantize"] <= many["quantize"] < 1.1 * few["quantize"]
    assert 2 * few["reduce_many"] < 8 * many["reduce_many"] < 8 * few["reduce_many"]


@pytest.mark.timeout(900)  # 50 s alone
def test_the_page_of_predictions_is_that_of_these_kernels(compiler_of_pages, build_directory, root):
    result = subprocess.run([sys.executable, "-B", root / "tools/gpu_model", "--build",
                             build_directory, "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
