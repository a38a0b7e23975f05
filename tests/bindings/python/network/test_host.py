"""Where rank 0 of a group between machines listens, as the user or the framework has chosen."""

import socket

import pytest
from gqsgd.network import host


@pytest.fixture
def no_choice(monkeypatch):
    for name in ("GQSGD_INTERFACE", "GQSGD_ADDRESS"):
        monkeypatch.delenv(name, raising=False)


def test_options_go_before_the_environment_and_both_before_frameworks(no_choice, monkeypatch):
    options = {"timeout_ms": 5, "address": "192.0.2.7", "port": 4000}
    assert host.id_options(options, "eth3", "") == {"address": "192.0.2.7", "port": 4000}
    assert host.id_options({"interface": "ib0"}, "eth3", "") == {"interface": "ib0"}
    assert host.id_options({"port": 4000}, "eth3", "") == {"port": 4000, "interface": "eth3"}
    monkeypatch.setenv("GQSGD_INTERFACE", "ib1")
    assert host.id_options({"port": 4000}, "eth3", "") == {"port": 4000}


def test_the_loopback_and_unknown_hosts_are_no_address_for_others(no_choice):
    for name in ("127.0.0.1", "localhost", "::1", "", "no-such-host.invalid"):
        assert host.id_options({}, "", name) == {}


def test_the_address_is_that_of_the_way_to_the_rendezvous(no_choice, monkeypatch):
    class Routed(socket.socket):
        def connect(self, target):
            assert target[0] == "192.0.2.9"

        def getsockname(self):
            return "192.0.2.1", 1234

    monkeypatch.setattr(socket, "socket", Routed)
    assert host.id_options({}, "", "192.0.2.9") == {"address": "192.0.2.1"}


def test_processes_of_one_machine_have_one_identity():
    assert host.identity() == host.identity()
    assert host.identity()[0] == socket.gethostname()
