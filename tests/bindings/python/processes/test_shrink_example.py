"""examples/python/shrink.py: the survivors of two deaths have the same bits."""

import os
import re
import subprocess
import sys

import pytest

TIMEOUT_S = 250


@pytest.mark.timeout(TIMEOUT_S + 30)
def test_survivors_go_on_with_the_same_bits(root):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, root / "examples/python/shrink.py"], env=environment,
                          capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("old ranks [0, 1, 2] go on") == 3
    assert done.stdout.count("old ranks [0, 2] go on") == 2
    ends = re.findall(r"2 ranks: error (\S+), weights (\w+)\n", done.stdout)
    assert len(ends) == 2 and ends[0] == ends[1]
    assert float(ends[0][0]) < 0.1
