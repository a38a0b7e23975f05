"""Makes the package importable from the source tree; the library is GQSGD_LIBRARY's."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bindings" / "python"))
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # the device is shared with torch and CuPy
