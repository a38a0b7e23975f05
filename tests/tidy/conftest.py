"""Fixtures of the tidy tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def build_directory():
    """The build to look at, from GQSGD_BUILD."""
    path = os.environ.get("GQSGD_BUILD")
    if not path:
        pytest.fail("GQSGD_BUILD is not set; it names the Meson build directory to inspect")
    return Path(path)
