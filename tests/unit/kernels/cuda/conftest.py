"""How the build compiles kernels."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def commands(build_directory):
    """{kernel source: the words of its compile command}, as the build runs them for the library."""
    commands = json.loads((build_directory / "compile_commands.json").read_text())
    found = {Path(c["file"]).name: shlex.split(c["command"]) for c in commands
             if c["output"].startswith("kernels/") and c["file"].endswith(".cu")}
    if not found:
        pytest.skip("the build has no CUDA")
    return found


@pytest.fixture(scope="session")
def compiler_of_pages(commands):
    """Skips where another compiler would make other instructions than docs/results has."""
    counted_by = "13.0"
    said = subprocess.run(["nvcc", "--version"], capture_output=True, text=True).stdout
    version = re.search(r"release ([\d.]+)", said)[1]
    if version != counted_by:
        pytest.skip(f"the pages are of nvcc {counted_by}, here is {version}")
