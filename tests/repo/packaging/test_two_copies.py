"""Two copies of the library in one process do not disturb each other."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "two_copies.py"


def test_two_copies_work_side_by_side(tmp_path, root, library):
    copies = [tmp_path / name for name in ("one.so", "other.so")]  # the loader would know one file
    for copy in copies:
        shutil.copy(library, copy)
    done = subprocess.run(
        [sys.executable, PROGRAM, *copies],
        env={**os.environ, "PYTHONPATH": str(root / "bindings/python")},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stdout) == (0, "both work\n"), done.stderr
