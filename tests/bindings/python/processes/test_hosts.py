"""Ranks on hosts that are network namespaces, started as torchrun would start them."""

import sys
from pathlib import Path

import gqsgd
import network_rank
import process_rank
import pytest

HOSTS = 3


@pytest.fixture
def outputs_of(network, monkeypatch, python_environment):
    """A function that runs a job of network_rank.py on every host; what ranks print."""
    from net_lib import ranks

    package = python_environment["PYTHONPATH"]
    monkeypatch.setattr(sys, "path", [package, *sys.path])  # which ranks get

    def run(job):
        with network(HOSTS, "1gbit") as net:
            return ranks.outputs_of(net, "network_rank.py", Path(network_rank.__file__), "env",
                                    HOSTS, job, timeout_s=100)

    return run


def test_hosts_get_the_bits_of_threads_over_ucx(outputs_of):
    bits = gqsgd.run_local(HOSTS, process_rank.mean)[0]
    assert outputs_of("hex_mean_and_transport") == [f"{bits.hex()} network"] * HOSTS
