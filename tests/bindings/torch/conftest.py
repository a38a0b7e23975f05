"""Makes the package importable from the source tree; keeps groups of processes for the tests."""

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


@pytest.fixture(scope="session")
def torch_groups():
    """A function: the processes of a Gloo group of so many ranks, which the tests share."""
    from torch_group import TorchGroup

    groups = {}

    def group_of(size):
        if size not in groups or not groups[size].alive:
            groups[size] = TorchGroup(size)
        return groups[size]

    yield group_of
    for group in groups.values():
        group.close()
