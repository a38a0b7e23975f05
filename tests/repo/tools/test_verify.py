"""gqsgd-verify: equal bits on all ranks, and the rank that differs by name."""

import os
import socket
import subprocess

import pytest

TIMEOUT_S = 200
COMPARED = 236  # of 240; native calls need a transport with an allreduce of its own

OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1"}


@pytest.fixture
def verify(build_directory):
    def run(*arguments, **environment):
        return subprocess.run([build_directory / "tools/gqsgd-verify", *arguments],
                              capture_output=True, text=True, timeout=TIMEOUT_S,
                              env={**os.environ, **environment})

    return run


def line_of(transport, ranks, compared=COMPARED):
    return f"{transport}: {ranks} ranks, {compared} results compared on each"


@pytest.mark.parametrize("ranks", ["2", "3", "4"])
def test_all_ranks_have_the_bits_of_virtual_ranks(verify, ranks):
    done = verify("--ranks", ranks)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [line_of("threads", ranks), line_of("processes", ranks)]


def test_scalar_stages_have_the_same_bits(verify):
    """Of the reference, whose digests are in the library."""
    assert verify(GQSGD_FORCE_ISA="scalar").returncode == 0


@pytest.mark.parametrize("rank", [0, 2])
def test_a_rank_that_differs_is_named_with_its_call(verify, rank):
    done = verify("--flip", str(rank))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    for transport, line in zip(("threads", "processes"), lines, strict=True):
        assert line.startswith(f"{transport}: ranks whose results differ: {rank}. On rank {rank}: ")
        assert "first none, ring, float32: digest " in line


def test_ranks_of_mpi_are_compared(build_directory):
    command = ["mpirun", "-n", "2", build_directory / "tools/gqsgd-verify-mpi"]
    environment = {**os.environ, **OPEN_MPI}
    for flip, status, begin in ([], 0, line_of("mpi", 2, 240)), (
            ["--flip", "1"], 1, "mpi: ranks whose results differ: 1. On rank 1: "):
        done = subprocess.run([*command, *flip], capture_output=True, text=True,
                              timeout=TIMEOUT_S, env=environment)
        assert done.returncode == status, done.stderr
        assert done.stdout.startswith(begin), done.stdout


def test_a_group_of_the_environment_is_compared(build_directory):
    """Processes of one machine: their group forms over TCP and shares memory."""
    command = [build_directory / "tools/gqsgd-verify", "--env", "--flip", "1"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                                   "RANK": str(rank), "WORLD_SIZE": "2",
                                   "GQSGD_SECRET": "of this test"})
             for rank in range(2)]
    outputs = [rank.communicate(timeout=TIMEOUT_S) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [1, 1], outputs
    assert "ranks whose results differ: 1. On rank 1: " in outputs[0][0]


def test_a_library_that_cannot_run_is_a_failure_of_its_own(verify):
    done = verify(GQSGD_FORCE_ISA="none_such")
    assert done.returncode == 2
    assert "none_such" in done.stderr


@pytest.mark.parametrize("arguments", [["--ranks"], ["--ranks", "two"], ["--flip", "-1"], ["--x"]])
def test_a_wrong_argument_ends_with_2(verify, arguments):
    done = verify(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert "see --help" in done.stderr


def test_a_group_of_the_environment_lacks_what_it_needs(verify):
    done = verify("--env", RANK="0", WORLD_SIZE="none")
    assert done.returncode == 2
    assert "WORLD_SIZE" in done.stderr
