"""Makes the package importable from the source tree and insists on a library to test."""

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

PACKAGES = Path(__file__).resolve().parents[3] / "bindings" / "python"

sys.path.insert(0, str(PACKAGES))
settings.register_profile("gqsgd", derandomize=True, database=None, deadline=None, max_examples=40)
settings.load_profile("gqsgd")


def pytest_configure(config):
    library = os.environ.get("GQSGD_LIBRARY", "")
    if not Path(library).is_file():
        raise pytest.UsageError(
            f"GQSGD_LIBRARY={library!r} names no file; these tests need the library of a build: "
            "GQSGD_LIBRARY=<build>/libgqsgd.so pytest tests/bindings/python/package"
        )
    os.environ["GQSGD_LIBRARY"] = str(Path(library).resolve())  # tests change folders


@pytest.fixture
def ctrl_c():
    """Ctrl-C raises KeyboardInterrupt, also where this process was begun to ignore it, as what runs
    in the background is."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def python_environment():
    """Environment in which another Python process finds this package and this library."""
    return {**os.environ, "PYTHONPATH": str(PACKAGES)}
