"""A training over torchft's lighthouse and managers, with replicas that are processes: one is
killed and restarted, twice. The others go on, and at each step all have the same parameters."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

coordination = pytest.importorskip("torchft.coordination", reason="torchft is not installed")

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "examples" / "python" / "torchft_replica.py"
WATCHDOG_S = 200
_LINE = re.compile(r"step (\d+) of (\d) replicas: .* parameters (\w+)\n")


class Replica:
    """A process that trains, and the steps that its output has so far."""

    def __init__(self, number, lighthouse):
        environment = {**os.environ, "STEPS": "1000000", "TORCHFT_LIGHTHOUSE": lighthouse,
                       "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1",
                       "GQSGD_LIBRARY": os.environ["GQSGD_LIBRARY"]}
        self.process = subprocess.Popen([sys.executable, PROGRAM, str(number)], env=environment,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.output, self.errors = [], []
        for pipe, lines in (self.process.stdout, self.output), (self.process.stderr, self.errors):
            threading.Thread(target=lines.extend, args=(pipe,), daemon=True).start()

    def steps(self):
        """(step, replicas, digest of the parameters) of all lines."""
        return [(int(a), int(b), c) for a, b, c in _LINE.findall("".join(self.output))]

    def newest(self, replicas):
        """The newest step of a quorum of so many; 0 if there was none."""
        return max((step for step, size, _ in self.steps() if size == replicas), default=0)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def common_steps(replicas):
    """What all of them have printed."""
    return set.intersection(*({step for step, *_ in each.steps()} for each in replicas))


def wait_until(condition, replicas):
    """The watchdog alone has a time; nothing else depends on one."""
    end_s = time.monotonic() + WATCHDOG_S
    while not condition():
        ended = [each.process.poll() for each in replicas]
        if time.monotonic() > end_s or any(code is not None for code in ended):
            tails = ["".join(each.output[-5:] + each.errors[-40:]) for each in replicas]
            pytest.fail(f"exit codes {ended}; the replicas said:\n" + "\n---\n".join(tails))
        time.sleep(0.05)


def test_one_replica_is_killed_and_restarted_twice_and_all_have_the_same_parameters():
    lighthouse = coordination.LighthouseServer(
        bind="0.0.0.0:0", min_replicas=2, join_timeout_ms=1000, heartbeat_timeout_ms=2000)
    address = lighthouse.address()
    stay, all_of_them = [Replica(k, address) for k in (0, 1)], []
    victim = Replica(2, address)
    all_of_them += [*stay, victim]
    try:
        for _ in range(2):
            wait_until(lambda: victim.newest(3) > 0, [*stay, victim])
            victim.kill()
            left_at = max(each.newest(3) for each in stay)
            wait_until(lambda: all(each.newest(2) > left_at for each in stay), stay)
            victim = Replica(2, address)
            all_of_them.append(victim)
        wait_until(lambda: common_steps([*stay, victim]), [*stay, victim])
    finally:
        for each in all_of_them:
            each.kill()
        lighthouse.shutdown()
    parameters = {}
    for each in all_of_them:
        for step, _, digest in each.steps():
            parameters.setdefault(step, set()).add(digest)
    assert {step: found for step, found in parameters.items() if len(found) > 1} == {}
