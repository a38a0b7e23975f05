"""The ranks of one instant: processes of this machine, or of hosts that are namespaces."""

import os
import select
import signal
import socket
import subprocess
import time
from dataclasses import dataclass

_HOST_PORT = 29600


@dataclass(frozen=True)
class End:
    """How a rank ended; times are nanoseconds of the monotonic clock."""

    status: str
    returned_ns: int
    destroyed_ns: int
    acted_ns: int
    calls: int
    sentence: str


class Group:
    """fault-rank for every rank; no process is left at the end."""

    def __init__(self, program, instant, ranks, net=None):
        self.starts_ns = [0] * ranks
        self.ends = [None] * ranks
        self._children = []
        self._begun = set()
        self._lines = [b""] * ranks
        self._port = _HOST_PORT + instant.number % 1000 if net else _free_port()
        self.processes = [self._start(program, instant, rank, ranks, net) for rank in range(ranks)]

    def _start(self, program, instant, rank, ranks, net):
        variables = {"RANK": rank, "WORLD_SIZE": ranks, "GQSGD_PORT": self._port,
                     "MASTER_ADDR": net.hosts[0].address if net else "127.0.0.1",
                     "GQSGD_SECRET": "of tools/netfaults", "GQSGD_HOST_ID": f"host{rank}"}
        if instant.transports:
            variables["UCX_TLS"] = instant.transports
        if instant.ucx:
            variables["GQSGD_UCX_LIBRARY"] = instant.ucx
        has_child = instant.kind.name == "kill, child lives" and rank == instant.victim
        command = ["env", *(f"{name}={value}" for name, value in variables.items()), program,
                   instant.options, instant.kind.timeout_ms, instant.quantizer, instant.schedule,
                   instant.count, instant.requests, instant.pause_us, int(has_child)]
        command = [str(word) for word in command]
        return subprocess.Popen(net.hosts[rank].command(*command) if net else command,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()
        for child in self._children:
            os.kill(child, signal.SIGKILL)

    def wait_until_begun(self, limit_s):
        """False if a rank ended before, or not all have joined in time."""
        everyone = set(range(len(self.processes)))
        self._read_until(lambda: self._begun | self.ended() == everyone, limit_s)
        return self._begun == everyone and not self.ended()

    def wait_for_ends(self, ranks, limit_s):
        """Those of `ranks` that have not ended after `limit_s`."""
        self._read_until(lambda: set(ranks) <= self.ended(), limit_s)
        return set(ranks) - self.ended()

    def ended(self):
        return {rank for rank, end in enumerate(self.ends) if end}

    def _read_until(self, is_done, limit_s):
        deadline = time.monotonic() + limit_s
        by_descriptor = {process.stdout.fileno(): rank
                         for rank, process in enumerate(self.processes)}
        while not is_done() and time.monotonic() < deadline and by_descriptor:
            ready, _, _ = select.select(list(by_descriptor), [], [], 0.05)
            for descriptor in ready:
                piece = os.read(descriptor, 65536)
                self._take(by_descriptor[descriptor], piece)
                if not piece:
                    del by_descriptor[descriptor]

    def _take(self, rank, piece):
        *lines, self._lines[rank] = (self._lines[rank] + piece).split(b"\n")
        for line in lines:
            word, *fields = line.decode(errors="replace").split("\t")
            if word == "starts":
                self.starts_ns[rank] = int(fields[0])
            elif word == "begun":
                assert fields[0] == "network", f"rank {rank} is over {fields[0]}"
                self._begun.add(rank)
                if fields[1] != "0":
                    self._children.append(int(fields[1]))
            elif word == "end":
                self.ends[rank] = End(fields[0], *map(int, fields[1:5]), fields[5])


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
