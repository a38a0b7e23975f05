"""Fixtures for every Python test: where the source tree, the build and the library are."""

import os
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest


def _path_from(variable, meaning):
    path = os.environ.get(variable)
    if not path:
        pytest.fail(f"{variable} is not set; it names {meaning}")
    return Path(path).resolve()


@pytest.fixture(scope="session")
def root():
    """The root of the source tree."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def load_tool(root):
    """`load_tool("build_wheel")`: a program of tools/ as a module."""
    def load(name):
        loader = SourceFileLoader(Path(name).stem, str(root / "tools" / name))
        module = module_from_spec(spec_from_loader(loader.name, loader))
        loader.exec_module(module)
        return module
    return load


@pytest.fixture
def library():
    """The libgqsgd.so under test."""
    return _path_from("GQSGD_LIBRARY", "the libgqsgd.so to test")


@pytest.fixture(scope="session")
def build_directory():
    """The Meson build directory that the library comes from."""
    return _path_from("GQSGD_BUILD", "the Meson build directory to inspect")


@pytest.fixture
def network(root, monkeypatch):
    """Hosts that are namespaces: the class of tools/net_lib; skips where none can be made."""
    monkeypatch.syspath_prepend(str(root / "tools"))
    # Each daemon of Open MPI takes its host for a machine of its own, and its ranks spin: beside
    # other programs a run of seconds takes minutes.
    monkeypatch.setenv("OMPI_MCA_mpi_yield_when_idle", "1")
    from net_lib.network import Network

    try:
        with Network(2, "100mbit"):
            pass
    except (RuntimeError, FileNotFoundError) as error:
        pytest.skip(f"no network namespaces here: {error}")
    return Network
