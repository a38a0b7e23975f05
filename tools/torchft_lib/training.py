"""A training of replicas on hosts: starts, kills and restarts them, and has what they print."""

import contextlib
import json
import math
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from net_lib.lighthouse import lighthouse
from net_lib.network import Network
from net_lib.ranks import command_of

REPLICAS, LEAST_REPLICAS = 3, 2
_PROGRAM = Path(__file__).with_name("replica.py")
_JOIN_TIMEOUT_MS = 1000  # for how long the lighthouse waits for a replica that is late to a step
_STALL_S = 120  # on a busy machine three processes take a minute to import torch
_RETURN_S = 300
_POLL_S = 0.05
_RECENT = 100  # lines, more than a replica prints while another is late to print the same step


class TrainingStopped(Exception):
    """A replica has ended by itself, or no step was committed for a long time."""


class Replica:
    """One process, and the lines that it has printed so far."""

    def __init__(self, command, number, path):
        self.number, self.path, self.lines = number, path, []
        self.killed_s = None  # by the clock of "at_s"
        self._read_bytes = 0
        with path.open("w") as output, path.with_suffix(".errors").open("w") as errors:
            self.process = subprocess.Popen(command, stdout=output, stderr=errors)

    def read(self):
        """The lines that are complete: a kill may cut the last one."""
        with self.path.open("rb") as file:
            file.seek(self._read_bytes)
            complete = file.read().rpartition(b"\n")[0]
        self._read_bytes += len(complete) + 1 if complete else 0
        self.lines += [json.loads(line) for line in complete.splitlines()]

    def committed(self):
        return [line for line in self.lines if line["committed"]]

    def kill(self):
        self.killed_s = time.monotonic()
        self.process.kill()
        self.process.wait()
        self.read()

    def errors(self):
        return self.path.with_suffix(".errors").read_text().strip()[-3000:]


@dataclass
class Run:
    """What has happened: all processes in the order of their starts, and the kills of them."""

    replicas: list = field(default_factory=list)
    victims: list = field(default_factory=list)  # of `replicas`, in the order of their deaths
    begin_s: float = 0  # all replicas had taken part in a step
    end_s: float = 0
    trouble: str = ""  # why the training has stopped

    def newest_step(self):
        return max((each.lines[-1]["step"] for each in self.replicas if each.lines), default=0)

    def losses(self):
        """{step: loss on held-out text}."""
        return {line["step"]: line["loss"] for each in self.replicas for line in each.lines
                if "loss" in line}


class Hosts:
    """Runs one training on hosts of its own; its replicas end with the `with`."""

    def __init__(self, setting, folder, rate, heartbeat_timeout_ms):
        self.run = Run()
        self._setting, self._folder, self._rate = setting, folder, rate
        self._heartbeat_timeout_ms = heartbeat_timeout_ms
        self._alive = []
        self._exit = contextlib.ExitStack()

    def __enter__(self):
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._exit:
            self._network = self._exit.enter_context(Network(REPLICAS, self._rate))
            self._address = self._exit.enter_context(lighthouse(
                self._network.hosts[0], LEAST_REPLICAS, _JOIN_TIMEOUT_MS,
                self._heartbeat_timeout_ms))
            self._exit.callback(self._end)
            self._alive = [self._started(number) for number in range(REPLICAS)]
            self._exit = self._exit.pop_all()
        return self

    def __exit__(self, *_):
        self._exit.close()

    def _end(self):
        for each in self.run.replicas:
            each.process.kill()  # all at once: none discards a step because another one has ended
        for each in self.run.replicas:
            each.process.wait()
            each.read()

    def _started(self, number):
        setting = json.dumps({**self._setting, "lighthouse": self._address,
                              "least_replicas": LEAST_REPLICAS})
        path = self._folder / f"{len(self.run.replicas)}.replica_{number}.jsonl"
        self.run.replicas.append(
            Replica(command_of(self._network, number, _PROGRAM, setting), number, path))
        return self.run.replicas[-1]

    def wait_until(self, condition):
        """Reads what replicas print. TrainingStopped has the reason if that cannot be."""
        newest, newest_s = self.run.newest_step(), time.monotonic()
        while not condition():
            for each in self._alive:
                each.read()
                if each.process.poll() is not None:
                    raise TrainingStopped(f"replica {each.number} ended by itself with "
                                          f"{each.process.returncode}:\n{each.errors()}")
            if self.run.newest_step() > newest:
                newest, newest_s = self.run.newest_step(), time.monotonic()
            if time.monotonic() - newest_s > _STALL_S:
                raise TrainingStopped(f"no step was committed for {_STALL_S} s after {newest}; "
                                      f"{self._folder} has the output of all replicas")
            time.sleep(_POLL_S)

    def wait_until_time(self, at_s):
        self.wait_until(lambda: time.monotonic() >= at_s)

    def wait_for_all(self):
        """Until all replicas that live have committed one step together."""
        begin_s = time.monotonic()

        def together():
            if time.monotonic() - begin_s > _RETURN_S:
                raise TrainingStopped(f"a replica has taken part in no step for {_RETURN_S} s; "
                                      f"{self._folder} has the output of all replicas")
            newest = ({line["step"] for line in each.lines[-_RECENT:]
                       if line["committed"] and line["replicas"] == REPLICAS}
                      for each in self._alive)
            return set.intersection(*newest)

        self.wait_until(together)

    def kill_and_restart(self, number):
        victim = self._alive[number]
        victim.kill()
        self.run.victims.append(victim)
        self._alive[number] = self._started(number)


def disturbed(hosts, seconds, kills, every_s):
    """The run in which one replica in turn is killed every `every_s`, or later, once the last one
    is back: for so many seconds, or until so many kills (one of the two is None)."""
    run = hosts.run
    with _noting_trouble(run):
        hosts.wait_for_all()
        run.begin_s = time.monotonic()
        end_s = run.begin_s + (math.inf if seconds is None else seconds)
        while len(run.victims) != kills:
            hosts.wait_until_time(min(run.begin_s + every_s * (len(run.victims) + 1), end_s))
            if time.monotonic() >= end_s:
                break
            hosts.kill_and_restart(len(run.victims) % REPLICAS)
            hosts.wait_for_all()
    return run


def undisturbed(hosts, last_step):
    run = hosts.run
    with _noting_trouble(run):
        hosts.wait_for_all()
        run.begin_s = time.monotonic()
        hosts.wait_until(lambda: run.newest_step() >= last_step)
    return run


@contextlib.contextmanager
def _noting_trouble(run):
    try:
        yield
    except TrainingStopped as stopped:
        run.trouble = str(stopped)
    run.end_s = time.monotonic()
