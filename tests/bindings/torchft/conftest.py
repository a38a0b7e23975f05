"""Makes the package importable from the source tree."""

import os
import sys
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[3] / "bindings" / "python"

sys.path.insert(0, str(PACKAGES))


def pytest_configure(config):
    library = os.environ.get("GQSGD_LIBRARY", "")
    if not Path(library).is_file():
        raise pytest.UsageError(f"GQSGD_LIBRARY={library!r} names no file; these tests need one")
    os.environ["GQSGD_LIBRARY"] = str(Path(library).resolve())
