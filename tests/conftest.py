"""Fixtures for every Python test: where the source tree, the build and the library are."""

import os
from pathlib import Path

import pytest


def _path_from(variable, meaning):
    path = os.environ.get(variable)
    if not path:
        pytest.fail(f"{variable} is not set; it names {meaning}")
    return Path(path).resolve()


@pytest.fixture
def root():
    """The root of the source tree."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture
def library():
    """The libgqsgd.so under test."""
    return _path_from("GQSGD_LIBRARY", "the libgqsgd.so to test")


@pytest.fixture(scope="session")
def build_directory():
    """The Meson build directory that the library comes from."""
    return _path_from("GQSGD_BUILD", "the Meson build directory to inspect")
