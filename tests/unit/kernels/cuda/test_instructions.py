"""docs/results/sass.md has the instructions of the kernels as they are, none above its bound."""

import subprocess
import sys

import pytest


@pytest.mark.timeout(900)  # 15 s of a processor
def test_the_page_of_instructions_is_that_of_these_kernels(compiler_of_pages, build_directory,
                                                           root):
    result = subprocess.run([sys.executable, "-B", root / "tools/count_sass", "--build",
                             build_directory, "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
