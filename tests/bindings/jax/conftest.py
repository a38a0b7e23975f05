"""Makes the package importable from the source tree, and JAX see four devices on this machine."""

import os
import sys
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[3] / "bindings" / "python"

sys.path.insert(0, str(PACKAGES))
sys.path.append(str(Path(__file__).resolve().parents[1] / "python" / "processes"))  # rank_processes
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"  # read when JAX starts


def pytest_configure(config):
    library = os.environ.get("GQSGD_LIBRARY", "")
    if not Path(library).is_file():
        raise pytest.UsageError(f"GQSGD_LIBRARY={library!r} names no file; these tests need one")
    os.environ["GQSGD_LIBRARY"] = str(Path(library).resolve())


@pytest.fixture
def comm():
    """A group of one rank: everything but the waiting for others."""
    import gqsgd

    (only,) = gqsgd.Communicator.local(1, timeout_ms=20000)
    with only:
        yield only


@pytest.fixture
def python_environment():
    """Environment in which another Python process finds this package and this library."""
    return {**os.environ, "PYTHONPATH": str(PACKAGES), "XLA_FLAGS": ""}
