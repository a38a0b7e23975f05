"""The lines of README.md and docs/PYTORCH.md for each way to train run as printed, and compress."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import recipes

PROGRAM = Path(recipes.__file__)
TIMEOUT_S = 100  # on a machine of its own all sections take 10 s


def is_here(section):
    return importlib.util.find_spec(recipes.IMPORTS.get(section, "torch").partition(".")[0])


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The folder with what the ranks of all sections print, and their errors."""
    folder = tmp_path_factory.mktemp("recipes")
    process = subprocess.Popen(
        [sys.executable, PROGRAM, folder, *filter(is_here, recipes.SECTIONS)],
        stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        errors = process.communicate(timeout=TIMEOUT_S)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        errors = process.communicate()[1] + f"no end in {TIMEOUT_S} s"
    return folder, errors


@pytest.mark.parametrize("section", recipes.SECTIONS)
def test_the_lines_of_the_page_compress(outputs, section):
    if not is_here(section):  # tools/test installs it, and takes no such skip
        pytest.skip(f"{recipes.IMPORTS[section]} is not here")
    folder, errors = outputs
    rank_count = recipes.SECTIONS[section][0]
    printed = [(folder / f"{section}.{rank}").read_text() for rank in range(rank_count)]
    digests = {text.splitlines()[-1] for text in printed if text}
    assert len(digests) == 1 and len(digests.pop()) == 64, errors[-5000:]
    for text in printed:
        assert int(re.search(r"(?:steps|calls) +(\d+)", text)[1]) >= 4, text
        assert re.search(r"ranks +rank \d of 2, transport processes", text), text
        assert 3.5 < float(re.search(r"float32: ratio ([\d.]+)", text)[1]) < 4, text
