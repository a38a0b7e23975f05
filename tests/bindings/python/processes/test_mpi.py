"""Communicators over MPI, through libgqsgd_mpi.so; each test is a run of mpirun."""

import os
import subprocess
import sys
from pathlib import Path

import gqsgd
import mpi_rank
import pytest
from gqsgd import _mpi

# More ranks than cores, in a container, as root: Open MPI wants to be told that it is meant so.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",  # a rank that spins keeps others from a core
}


def test_ranks_of_mpi_get_the_bits_of_virtual_ranks(python_environment):
    run = subprocess.run(
        ["mpirun", "-n", "3", sys.executable, Path(mpi_rank.__file__)],
        env={**python_environment, **OPEN_MPI},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_missing_library_is_an_import_error_that_says_where_it_was_looked_for(monkeypatch):
    monkeypatch.setattr(_mpi, "_library", None)
    monkeypatch.setitem(os.environ, "GQSGD_MPI_LIBRARY", "/nowhere/libgqsgd_mpi.so")
    with pytest.raises(ImportError, match="GQSGD_MPI_LIBRARY .*/nowhere/libgqsgd_mpi.so") as caught:
        gqsgd.Communicator.mpi()
    for command in ("pip install . -Csetup-args=-Dmpi=enabled", "meson setup B -Dmpi=enabled"):
        assert command in str(caught.value)
