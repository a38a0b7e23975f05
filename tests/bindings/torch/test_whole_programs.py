"""Whole programs end with exit code 0, however they end: many times, for what is left is a race.

GQSGD_TEST_RUN_COUNT=200 makes the longer count.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN_COUNT = int(os.environ.get("GQSGD_TEST_RUN_COUNT", "10"))
RUN_TIMEOUT_S = 30  # on a machine of its own a run takes a second


@pytest.mark.parametrize("transport", ["process", "network", "group"])
def test_every_rank_of_a_finished_training_exits_with_0(transport):
    program = Path(__file__).with_name("whole_programs.py")
    result = subprocess.run(
        [sys.executable, program, transport, str(RUN_COUNT)], capture_output=True, text=True,
        timeout=60 + RUN_TIMEOUT_S * RUN_COUNT)
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr[-3000:]}"
    assert "terminate called" not in result.stderr
