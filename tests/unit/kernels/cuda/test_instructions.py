"""docs/results/sass.md has the instructions of the kernels as they are, none above its bound."""

import re
import subprocess
import sys

import pytest

COUNTED_BY = "13.0"  #: other compilers make other instructions


def test_the_page_of_instructions_is_that_of_these_kernels(commands, root):
    said = subprocess.run(["nvcc", "--version"], capture_output=True, text=True).stdout
    version = re.search(r"release ([\d.]+)", said)[1]
    if version != COUNTED_BY:
        pytest.skip(f"the page is of nvcc {COUNTED_BY}, here is {version}")
    result = subprocess.run([sys.executable, "-B", root / "tools/count_sass", "--check"],
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
