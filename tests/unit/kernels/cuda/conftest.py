"""How the build compiles kernels."""

import json
import shlex
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
