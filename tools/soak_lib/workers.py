"""The processes of a run, which take one round after the other."""

import os
import select
import signal
import subprocess
import time
from dataclasses import dataclass

from .rounds import KILLS

HANG_S = 120  # far above every wait of a round, 20 s
# The C library counts what its caches hold as in use, and keeps an arena for each of many threads:
# without both the heap's size is what the program holds.
_ALLOCATOR = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "MALLOC_ARENA_MAX": "1"}


class Hang(Exception):
    """A process did not answer in HANG_S."""


@dataclass(frozen=True)
class Sample:
    """What a process holds after a round; the names are those of flatness.LIMITS."""

    heap: int
    resident: int
    proportional: int
    descriptors: int
    threads: int
    mappings: int


@dataclass(frozen=True)
class End:
    calls: int
    refused: int
    digest: str
    sample: Sample
    wrong: str


class Worker:
    """One process."""

    def __init__(self, program, leaks):
        self._process = subprocess.Popen([program, *leaks], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, env={**os.environ, **_ALLOCATOR})
        self._read = b""

    def send(self, line):
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()

    def kill(self):
        """Ends it at once."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def answer(self):
        """The fields of one line. Raises Hang, or RuntimeError where the process has ended."""
        deadline = time.monotonic() + HANG_S
        while b"\n" not in self._read:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([self._process.stdout], [], [], left_s)[0]:
                raise Hang(f"process {self._process.pid} has not answered in {HANG_S} s")
            piece = os.read(self._process.stdout.fileno(), 65536)
            if not piece:
                raise RuntimeError(f"process {self._process.pid} ended with status "
                                   f"{self._process.wait()}")
            self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace").split("\t")

    def end(self):
        """How a round ended."""
        word, _, calls, refused, digest, *sample, wrong = self.answer()
        assert word == "end", word
        return End(int(calls), int(refused), digest, Sample(*map(int, sample)), wrong)

    def unique_id(self, transport):
        """An id in hexadecimal digits. Raises RuntimeError with the library's sentence."""
        self.send(f"id {transport}\n")
        word, text = self.answer()
        if word != "id":
            raise RuntimeError(text)
        return text


class Workers:
    """All of a run; the last is started anew where a round has killed it."""

    def __init__(self, program, count, leaks=()):
        self._start = lambda: Worker(program, leaks)
        self._all = [self._start() for _ in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self._all:
            worker.kill()

    def run(self, one):
        """A round on all; their ends in the order of the processes, None for one that was killed.
        """
        ids = [None, None]
        if one.transport != "threads":
            ids = [self._all[0].unique_id(one.transport),
                   self._all[0].unique_id(one.transport) if one.continues else None]
        for rank, worker in enumerate(self._all):
            worker.send(one.line(rank, ids))
        if one.fault == "kill" and KILLS[one.transport] == "from outside":
            time.sleep(one.kill_s)
            self._all[one.victim].kill()
        ends = [None if one.fault == "kill" and rank == one.victim else worker.end()
                for rank, worker in enumerate(self._all)]
        if one.fault == "kill":
            self._all[one.victim].kill()
            self._all[one.victim] = self._start()
        return ends
