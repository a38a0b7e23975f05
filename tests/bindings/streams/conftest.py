"""Calls on streams without a GPU: the library whose device is made of threads, and a stand-in of
NCCL between threads for ranks."""

import os
import sys
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[3] / "bindings" / "python"

sys.path.insert(0, str(PACKAGES))


def pytest_configure(config):
    folder = Path(os.environ.get("GQSGD_BUILD", "")).resolve() / "tests" / "gpu" / "nccl"
    library, nccl = folder / "libgqsgd_on_threads.so", folder / "libnccl_whole.so"
    if not library.is_file():
        raise pytest.UsageError(f"no {library}; hint: GQSGD_BUILD=<a build with its tests>")
    os.environ.update(GQSGD_LIBRARY=str(library), GQSGD_NCCL_LIBRARY=str(nccl))


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Arrays of the device are gone when a test is: the library's own memory with them."""
    import threads_device

    yield
    assert threads_device.comms_in_use() == 0
