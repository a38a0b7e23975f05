"""Ranks that are processes and reach each other over the network of this machine, by an id and by
the environment of a launcher."""

import socket
import subprocess
import sys
from pathlib import Path

import gqsgd
import network_rank
import process_rank
import pytest

PROGRAM = Path(network_rank.__file__)
ID_BYTES = 256
TIMEOUT_S = 60


class Ranks:
    """Processes, each started by `start`; `ends` is (exit status, output) of each."""

    def __init__(self, environment):
        self._environment, self._processes = environment, []

    def start(self, *arguments, **variables):
        process = subprocess.Popen(
            [sys.executable, PROGRAM, *map(str, arguments)],
            env={**self._environment, **{k: str(v) for k, v in variables.items()}},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._processes.append(process)
        return process

    def ends(self):
        ended = [process.communicate(timeout=TIMEOUT_S) for process in self._processes]
        for process, (_, complaint) in zip(self._processes, ended):
            assert process.returncode <= 0, complaint.decode()
        return [(process.returncode, output)
                for process, (output, _) in zip(self._processes, ended)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.fixture
def run_by_id(python_environment):
    """A function: ranks that rank 0's id has brought together."""

    def run(size, job):
        with Ranks(python_environment) as ranks:
            first = ranks.start(0, size, job)
            unique_id = first.stdout.read(ID_BYTES)
            for rank in range(1, size):
                other = ranks.start(rank, size, job)
                other.stdin.write(unique_id)
                other.stdin.flush()
            return ranks.ends()

    return run


@pytest.fixture
def run_by_environment(python_environment):
    """A function: ranks as torchrun starts them; `of_rank(k)` has more variables of rank k."""

    def run(size, job, of_rank=lambda rank: {}):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with Ranks(python_environment) as ranks:
            for rank in range(size):
                ranks.start("env", size, job, RANK=rank, WORLD_SIZE=size, MASTER_ADDR="127.0.0.1",
                            GQSGD_PORT=port, GQSGD_SECRET="a secret of this test",
                            **of_rank(rank))
            return ranks.ends()

    return run


@pytest.mark.parametrize("size", [1, 2, 4])
def test_ranks_of_a_network_get_the_bits_of_threads(run_by_id, size):
    threads = gqsgd.run_local(size, process_rank.mean)
    assert set(run_by_id(size, "mean")) == {(0, threads[0])}


def test_the_transport_has_a_name(run_by_id):
    assert run_by_id(2, "transport") == [(0, b"network")] * 2


def test_ranks_measure_their_links_when_they_connect(run_by_id, python_environment):
    python_environment |= {"GQSGD_COSTS": "measure"}
    first, *others = run_by_id(3, "measured")
    assert others == [first] * 2
    assert first[0] == 0 and first[1].startswith(b"latency_ns=")


def test_a_dead_rank_is_named_by_the_others(run_by_id):
    ended = run_by_id(3, "death")
    assert ended[1] == (-9, b"")
    for rank in (0, 2):
        assert ended[rank][1].startswith(b"PEER_LOST")
        assert b"rank 1" in ended[rank][1]


def test_a_child_is_refused_and_its_parent_goes_on(run_by_id):
    assert run_by_id(2, "forked") == [(0, b"forked")] * 2


def test_a_rank_that_has_its_result_may_do_something_else(run_by_id, tmp_path,
                                                          python_environment):
    python_environment |= {"TEST_FOLDER": str(tmp_path), "UCX_TLS": "tcp,self",
                           "UCX_NET_DEVICES": "lo"}
    assert run_by_id(2, "idle") == [(0, b"through")] * 2


def test_a_missing_rank_is_named():
    unique_id = gqsgd.network_id(interface="lo")
    with pytest.raises(gqsgd.Timeout, match="1"):
        gqsgd.Communicator.network(unique_id, 0, 2, interface="lo", timeout_ms=100)


def test_a_missing_ucx_is_named_with_what_installs_it():
    unique_id = gqsgd.network_id(interface="lo")
    with pytest.raises(gqsgd.Unsupported, match=r"/nowhere/libucp\.so"):
        gqsgd.Communicator.network(unique_id, 0, 1, interface="lo", ucx="/nowhere/libucp.so",
                                   timeout_ms=20000)


def test_processes_of_a_launcher_on_one_machine_share_memory(run_by_environment):
    threads = gqsgd.run_local(3, process_rank.mean)
    ended = run_by_environment(3, "mean_and_transport")
    assert ended == [(0, threads[0] + b"processes")] * 3


def test_those_on_several_machines_get_a_network(run_by_environment):
    """Nodes of their own are what tells them here."""
    threads = gqsgd.run_local(3, process_rank.mean)
    ended = run_by_environment(
        3, "mean_and_transport", lambda rank: {"GQSGD_HOST_ID": f"node {rank}"})
    assert ended == [(0, threads[0] + b"network")] * 3
