"""Groups between machines, as far as one process gets: ids, refusals, prototypes."""

import os

import declarations
import gqsgd
import numpy as np
import pytest
from gqsgd.network import groups

LAUNCHERS = ("GQSGD_", "SLURM_", "OMPI_", "PMI_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_")


@pytest.fixture
def no_launcher(monkeypatch):
    """An environment in which no launcher has left anything."""
    for name in [name for name in os.environ if name.startswith(LAUNCHERS)]:
        if name not in ("GQSGD_LIBRARY", "GQSGD_BUILD"):
            monkeypatch.delenv(name)


def test_the_prototypes_equal_the_header():
    assert declarations.functions(declarations.code_of("gqsgd_network.h")) == groups.PROTOTYPES


def test_an_interface_that_is_not_there_is_named():
    with pytest.raises(gqsgd.InvalidArgument, match="no-such-if"):
        gqsgd.network_id(interface="no-such-if")


@pytest.mark.parametrize("unique_id", [b"", b"x" * 255, b"x" * 257])
def test_a_unique_id_of_another_size_is_refused(unique_id):
    with pytest.raises(gqsgd.InvalidArgument, match=f"{len(unique_id)} bytes, not 256"):
        gqsgd.Communicator.network(unique_id, 0, 1)


def test_an_id_of_processes_is_no_id_between_machines():
    with pytest.raises(gqsgd.InvalidArgument, match="unique_id"):
        gqsgd.Communicator.network(gqsgd.unique_id(), 0, 2)


def test_without_a_launcher_the_missing_variable_is_named(no_launcher):
    with pytest.raises(gqsgd.InvalidArgument, match="RANK"):
        gqsgd.Communicator.from_env()


def test_one_process_of_a_launcher_is_a_group(no_launcher, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    with gqsgd.Communicator.from_env(timeout_ms=20000) as comm:
        assert (comm.rank, comm.size) == (0, 1)
        mean = comm.allreduce(np.ones(2, np.float32), gqsgd.Quantizer("none"))
        assert mean.tolist() == [1.0, 1.0]
