"""Ranks over a network that fails: a link goes down, a route swallows everything, a small MTU."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import gqsgd
import numpy as np
import pytest

HOSTS, TIMEOUT_MS, LIMIT_S = 3, 2000, 60
RATE = "100mbit"
COUNT = 1_000_000  # more than a second of the wire's time in direct: links fail in mid-operation


class Run:
    """Ranks of network_rank.py under mpirun, one per host."""

    def __init__(self, network, folder, build, count, preset="blocks-8", schedule="direct"):
        from net_lib.mpi import Mpirun

        self.folder, self._size = folder, len(network.hosts)
        self._mpirun = Mpirun(network, "mpirun.openmpi")
        command = self._mpirun.command(
            "env", f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}",
            f"GQSGD_LIBRARY={build / 'libgqsgd.so'}", sys.executable,
            str(Path(__file__).with_name("network_rank.py")), str(folder), str(count),
            str(TIMEOUT_MS), preset, schedule)
        self._errors = (folder / "errors").open("w")
        self._process = subprocess.Popen(command, stdout=self._errors, stderr=self._errors)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._errors.close()
        self._mpirun.close()

    def files(self, kind):
        """Waits for RANK.kind of every rank."""
        paths = [self.folder / f"{rank}.{kind}" for rank in range(self._size)]
        end = time.monotonic() + LIMIT_S
        while not all(path.exists() for path in paths):
            running = self._process.poll() is None and time.monotonic() < end
            assert running or all(path.exists() for path in paths), (f"no {kind} of all ranks: "
                f"{(self.folder / 'errors').read_text()[-1500:]}")
            time.sleep(0.02)
        return paths

    def ends(self):
        return [json.loads(path.read_text()) for path in self.files("end")]


PHASES = ("to make this call", "norms of values", "for values", "to take the last codes")


def check_failures(ends):
    """Every rank has an error in time that names ranks and phase, and its input as it was."""
    for rank, end in enumerate(ends):
        assert end["error"] in ("Timeout", "PeerLost"), end
        found = re.search(rf"rank {rank} waited \d+ ms for .*\branks? ([\d, ]+)", end["sentence"])
        assert found, end
        assert set(map(int, found[1].split(","))) <= set(range(HOSTS)) - {rank}, end
        assert any(phase in end["sentence"] for phase in PHASES), end
        assert end["intact"], end


@pytest.mark.parametrize(("preset", "schedule"), [("blocks-8", "direct"), ("paper-gl8", "ring")])
def test_a_link_that_goes_down(network, build_directory, tmp_path, preset, schedule):
    with network(HOSTS, RATE) as net, \
            Run(net, tmp_path, build_directory, COUNT, preset, schedule) as run:
        run.files("begun")
        time.sleep(0.3)  # into a call, which takes a second and more
        cut = time.monotonic()
        net.set_link(net.hosts[1], up=False)
        ends = run.ends()
        waited = time.monotonic() - cut
    check_failures(ends)
    assert any(re.search(r"ranks? [\d, ]*\b1\b", end["sentence"]) for end in (ends[0], ends[2]))
    # The limit is one without progress; 1 s on top of it, and what starts and reads files.
    assert waited < 2 * TIMEOUT_MS * 1e-3 + 2


def test_a_route_that_swallows_everything(network, build_directory, tmp_path):
    with network(HOSTS, RATE) as net, Run(net, tmp_path, build_directory, COUNT) as run:
        run.files("begun")
        time.sleep(0.3)
        net.set_blackhole(net.hosts[0], net.hosts[2])
        ends = run.ends()
    check_failures(ends)
    assert re.search(r"for .*\branks? [\d, ]*\b2\b", ends[0]["sentence"]), ends[0]


def test_a_small_mtu(network, build_directory, tmp_path):
    with network(HOSTS, RATE) as net:
        for host in net.hosts:
            net.set_mtu(host, 576)
        with Run(net, tmp_path, build_directory, 20_000) as run:
            run.files("begun")
            (tmp_path / "stop").touch()
            ends = run.ends()
    assert [end["error"] for end in ends] == [None] * HOSTS
    inputs = [np.random.default_rng(rank).standard_normal(20_000, np.float32)
              for rank in range(HOSTS)]
    step = ends[0]["calls"]
    expected = gqsgd.simulate(inputs, gqsgd.Quantizer("blocks-8"), schedule="direct", step=step)
    assert {end["xor"] for end in ends} == {int(np.bitwise_xor.reduce(expected.view(np.uint32)))}
