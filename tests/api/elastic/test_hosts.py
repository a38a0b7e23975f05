"""Groups between hosts that lose ranks: links that are cut and come back, processes that are
stopped and killed. Never do two groups go on."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HOSTS, TIMEOUT_MS, LIMIT_S = 3, 2000, 60


class Rank:
    def __init__(self, host, number, root):
        variables = {"RANK": number, "WORLD_SIZE": HOSTS, "MASTER_ADDR": root,
                     "GQSGD_SECRET": "of this test", "UCX_TLS": "tcp,self"}
        self.process = subprocess.Popen(
            host.command("env", *(f"{name}={value}" for name, value in variables.items()),
                         sys.executable, str(Path(__file__).with_name("shrinking_rank.py")),
                         str(TIMEOUT_MS)),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self):
        assert select.select([self.process.stdout], [], [], LIMIT_S)[0], "no answer in time"
        line = self.process.stdout.readline().strip()
        return line or f"ended: {self.process.stderr.read().strip().splitlines()[-1:]}"

    def end(self):
        self.process.communicate(timeout=LIMIT_S)


class Ranks:
    """A rank on every host; killed at the end."""

    def __init__(self, net):
        self.ranks = [Rank(host, number, net.hosts[0].address)
                      for number, host in enumerate(net.hosts)]

    def __enter__(self):
        lines = [rank.answer() for rank in self.ranks]
        if any("Unsupported" in line for line in lines):
            pytest.skip(f"no UCX here: {lines}")
        assert lines == ["begun"] * HOSTS
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.process.kill()
            rank.process.communicate()

    def __getitem__(self, number):
        return self.ranks[number]

    def all(self, command, numbers=range(HOSTS)):
        """The answers of these ranks, which do it side by side."""
        for number in numbers:
            self[number].tell(command)
        return [self[number].answer() for number in numbers]


def assert_two_go_on(ranks):
    """Ranks 0 and 1, whose call has failed."""
    for line in ranks.all("shrink", (0, 1)):
        assert re.match(r"members 0 1 in \d+ ms; (repeat|finished)$", line), line
    assert ranks.all("check", (0, 1)) == ["as simulated"] * 2


def test_a_dead_rank_is_named_within_a_second_and_the_others_go_on(network):
    with network(HOSTS, "1gbit") as net, Ranks(net) as ranks:
        for number in range(HOSTS):
            ranks[number].tell("call")
        time.sleep(0.3)
        begin = time.monotonic()
        os.kill(ranks[2].process.pid, signal.SIGKILL)
        for number in (0, 1):
            assert re.match(r"failed (PeerLost|Revoked): .*rank 2", ranks[number].answer())
        assert time.monotonic() - begin < 1.5  # one of its own, and what this test takes
        assert_two_go_on(ranks)


@pytest.mark.parametrize("is_calling", [True, False])
def test_a_rank_whose_link_comes_back_when_the_others_have_ended_does_not_go_on(network,
                                                                                is_calling):
    """All that it sees of them is that their connections are gone, as those of the dead are."""
    with network(HOSTS, "1gbit") as net, Ranks(net) as ranks:
        assert ranks.all("check") == ["as simulated"] * HOSTS
        for number in (0, 1, 2) if is_calling else (0, 1):
            ranks[number].tell("call")
        time.sleep(0.3)
        net.set_link(net.hosts[2], up=False)
        for number in (0, 1):
            assert re.match(r"failed \w+: .*rank 2", ranks[number].answer())
        assert_two_go_on(ranks)
        for number in (0, 1):  # a death, so that no farewell waits for the link
            ranks[number].process.kill()
            ranks[number].end()
        if is_calling:
            assert re.match("failed ", ranks[2].answer())
            ranks[2].tell("shrink")
        time.sleep(0.2)
        net.set_link(net.hosts[2], up=True)
        if not is_calling:
            assert re.match("failed ", ranks.all("call", (2,))[0])
            ranks[2].tell("shrink")
        assert re.match("Revoked: .*rank", ranks[2].answer())


def test_a_rank_that_is_stopped_for_long_does_not_go_on(network):
    with network(HOSTS, "1gbit") as net, Ranks(net) as ranks:
        for number in range(HOSTS):
            ranks[number].tell("call")
        time.sleep(0.3)
        os.kill(ranks[2].process.pid, signal.SIGSTOP)
        for number in (0, 1):
            assert re.match(r"failed \w+: .*rank 2", ranks[number].answer())
        assert_two_go_on(ranks)
        os.kill(ranks[2].process.pid, signal.SIGCONT)
        assert re.match("failed ", ranks[2].answer())
        line = ranks.all("shrink", (2,))[0]
        assert re.match("Revoked: .*ranks 0-1 go on without this rank", line), line
