"""Ranks on hosts that are network namespaces: groups that form, and links that fail."""

import os
import re
import signal
import subprocess
import time

import gqsgd
import numpy as np
import pytest

HOSTS, LIMIT_S = 3, 60
LARGE = 4_000_000  # seconds of the wire's time: links fail in mid-call


def by_hand(net, rank):
    return {"RANK": rank, "WORLD_SIZE": len(net.hosts), "MASTER_ADDR": net.hosts[0].address}


def by_srun(net, rank):
    """What Slurm sets in a step, where its nodes are named by their addresses."""
    prefix = net.hosts[0].address.rpartition(".")[0]
    return {"SLURM_PROCID": rank, "SLURM_NTASKS": len(net.hosts), "SLURM_JOB_ID": 4711,
            "SLURM_NNODES": len(net.hosts), "SLURM_NODEID": rank, "SLURM_LOCALID": 0,
            "SLURM_STEP_NODELIST": f"{prefix}.[1-{len(net.hosts)}]",
            "SLURM_JOB_NODELIST": f"{prefix}.[1-250]"}


def by_mpirun(net, rank):
    return {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": len(net.hosts),
            "OMPI_COMM_WORLD_LOCAL_SIZE": 1, "GQSGD_ADDRESS": net.hosts[0].address}


def by_mpiexec(net, rank):
    return {"PMI_RANK": rank, "PMI_SIZE": len(net.hosts), "MPI_LOCALNRANKS": 1,
            "GQSGD_ADDRESS": net.hosts[0].address}


class Ranks:
    """network_rank on every host; killed at the end."""

    def __init__(self, net, build, calls, count, mode="stays", options="timeout_ms=3000",
                 launcher=by_hand, **others):
        variables = {"UCX_TLS": "tcp,self", "GQSGD_SECRET": "of this test",
                     "NETWORK_RANK_OPTIONS": options, **others}
        program = build / "tests/api/network/network_rank"
        self.processes = [subprocess.Popen(
            host.command("env", *(f"{name}={value}" for name, value
                                  in {**launcher(net, rank), **variables}.items()),
                         str(program), str(calls), str(count), mode),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for rank, host in enumerate(net.hosts)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()

    def wait_for_first_lines(self):
        lines = [process.stdout.readline().strip() for process in self.processes]
        if any("UNSUPPORTED" in line for line in lines):
            pytest.skip(f"no UCX here: {lines}")
        assert lines == ["begun"] * len(lines)

    def ends(self):
        for process in self.processes:
            process.wait(LIMIT_S)
        # communicate() would leave out what was buffered with the first line.
        return [process.stdout.read().strip() for process in self.processes]


def expected_xor(count, step):
    inputs = [((np.arange(count) * 7 + rank * 13) % 31 - 15).astype(np.float32)
              for rank in range(HOSTS)]
    summed = gqsgd.simulate(inputs, gqsgd.Quantizer("blocks-8"), op="sum", step=step)
    return int(np.bitwise_xor.reduce(np.asarray(summed).reshape(-1, count)[0].view(np.uint32)))


@pytest.mark.parametrize("launcher", [by_hand, by_srun, by_mpirun, by_mpiexec])
def test_hosts_form_a_group_and_get_the_bits_of_virtual_ranks(network, build_directory, launcher):
    with (network(HOSTS, "1gbit") as net,
          Ranks(net, build_directory, 5, 100_000, launcher=launcher) as ranks):
        ranks.wait_for_first_lines()
        assert ranks.ends() == [f"ok network {expected_xor(100_000, 4)}"] * HOSTS


@pytest.mark.parametrize("where", [(0,), (0, 1, 2)], ids=["one host", "all"])
def test_interfaces_that_join_no_hosts_are_left_alone(network, build_directory, where):
    with network(HOSTS, "1gbit") as net:
        for k in where:
            net.add_dead_end(net.hosts[k], "docker0", "172.17.0.1/16")
            net.add_dead_end(net.hosts[k], "eth1", f"192.168.{k}.5/24")
        with Ranks(net, build_directory, 5, 100_000) as ranks:
            ranks.wait_for_first_lines()
            assert ranks.ends() == [f"ok network {expected_xor(100_000, 4)}"] * HOSTS


def test_addresses_may_have_labels(network, build_directory):
    with network(HOSTS, "1gbit") as net:
        for k, host in enumerate(net.hosts):
            net.add_address(host, "eth0:1", f"192.168.7.{k + 1}/24")
        with Ranks(net, build_directory, 5, 100_000, MASTER_ADDR="192.168.7.1") as ranks:
            ranks.wait_for_first_lines()
            assert ranks.ends() == [f"ok network {expected_xor(100_000, 4)}"] * HOSTS


def test_leaving_right_after_ok_on_a_slow_link_costs_no_rank_its_result(network, build_directory):
    with network(HOSTS, "20mbit") as net:
        for _ in range(3):
            with Ranks(net, build_directory, 1, 1_000_000, "leaves",
                       options="timeout_ms=20000") as ranks:
                ranks.wait_for_first_lines()
                assert [end.split()[0] for end in ranks.ends()] == ["ok"] * HOSTS


@pytest.mark.parametrize("cut", ["link", "route", "route to it"])
def test_a_host_that_is_cut_off_is_named_within_the_timeout(network, build_directory, cut):
    with network(HOSTS, "100mbit") as net, Ranks(net, build_directory, 1000, LARGE) as ranks:
        ranks.wait_for_first_lines()
        time.sleep(0.5)
        begun = time.monotonic()
        if cut == "link":
            net.set_link(net.hosts[1], up=False)
        else:
            for peer in (0, 2):
                if cut == "route":
                    net.set_blackhole(net.hosts[1], net.hosts[peer])
                net.set_blackhole(net.hosts[peer], net.hosts[1])
        ends = ranks.ends()
        waited = time.monotonic() - begun
    for rank, end in enumerate(ends):
        assert re.match(r"(TIMEOUT|PEER_LOST|REVOKED): ", end), end
        if rank != 1:
            assert re.search(r"ranks? 1\b", end), end
        elif cut == "route to it":  # it sees that none of its packets is acknowledged
            assert re.search(r"no other rank answers rank 1|none answers it", end), end
    assert waited < 3 + 5


@pytest.mark.parametrize("cut", ["link", "route"])
def test_an_outage_of_20_seconds_is_bridged(network, build_directory, cut):
    """Longer than keepalive probes of UCX take (10 s, and three of them 2 s apart)."""
    with (network(HOSTS, "100mbit") as net,
          Ranks(net, build_directory, 2, LARGE, options="timeout_ms=300000") as ranks):
        ranks.wait_for_first_lines()
        time.sleep(0.5)
        away, others = net.hosts[1], (net.hosts[0], net.hosts[2])
        if cut == "link":
            net.set_link(away, up=False)
        for other in others if cut == "route" else ():
            net.set_blackhole(other, away)
        time.sleep(20)
        if cut == "link":
            net.set_link(away, up=True)
        for other in others if cut == "route" else ():
            net.clear_blackhole(other, away)
        assert ranks.ends() == [f"ok network {expected_xor(LARGE, 1)}"] * HOSTS


def test_a_host_that_dies_is_named_within_a_second(network, build_directory):
    with network(HOSTS, "100mbit") as net, Ranks(net, build_directory, 1000, LARGE) as ranks:
        ranks.wait_for_first_lines()
        time.sleep(0.5)
        os.kill(ranks.processes[1].pid, signal.SIGKILL)
        begun = time.monotonic()
        ends = ranks.ends()
        waited = time.monotonic() - begun
    for rank in (0, 2):
        assert ends[rank].startswith("PEER_LOST: rank 1 has died"), ends[rank]
    assert waited < 2  # a second, and the ends of processes


def test_a_loopback_address_of_rank_0_is_explained(network, build_directory):
    with network(2, "1gbit") as net:
        with Ranks(net, build_directory, 1, 10, options="timeout_ms=1500",
                   MASTER_ADDR="127.0.0.1") as ranks:
            ends = ranks.ends()
    if "UNSUPPORTED" in ends[1]:
        pytest.skip(ends[1])
    assert ends[0].startswith("TIMEOUT: missing ranks: 1"), ends[0]
    assert "Connection refused" in ends[1], ends[1]
    assert "loopback device" in ends[1], ends[1]
    assert "GQSGD_ADDRESS" in ends[1], ends[1]
