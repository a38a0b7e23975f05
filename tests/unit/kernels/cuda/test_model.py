"""docs/results/gpu-model.md has what tools/gpu_model predicts of the kernels as they are."""

import subprocess
import sys

import pytest


@pytest.mark.timeout(900)  # 50 s alone
def test_the_page_of_predictions_is_that_of_these_kernels(compiler_of_pages, build_directory, root):
    result = subprocess.run([sys.executable, "-B", root / "tools/gpu_model", "--build",
                             build_directory, "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
