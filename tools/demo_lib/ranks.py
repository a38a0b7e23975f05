"""Starts one process per rank and collects their results, or the reason why there are none.

A rank that dies or reports an error ends the whole job; a silent job ends after a deadline. In
every case no process is left behind.
"""

import contextlib
import multiprocessing
import signal
import time
from multiprocessing.connection import wait

import gqsgd

from .training import Trainer

SILENCE_MAX_S = 60  # rank 0 reports several times a second
GRACE_S = 5  # for the other ranks to say what they saw of a failure


class RanksFailed(Exception):
    """Some rank failed; the message has one line per rank."""


def train_all(runs, rank_count, on_progress):
    """Trains every run on `rank_count` processes; returns outcomes[run][rank].

    on_progress(run_index, step, loss) is called with rank 0's news; step is None at a run's end.
    """
    context = multiprocessing.get_context("spawn")
    unique_id = gqsgd.unique_id()
    processes, pipes = [], []
    try:
        for rank in range(rank_count):
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=_rank_main, args=(theirs, unique_id, rank, rank_count, runs), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
            pipes.append(mine)
        return _Listener(processes, pipes, len(runs), on_progress).listen()
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()


def _rank_main(pipe, unique_id, rank, rank_count, runs):
    # The parent decides what Ctrl-C means; a rank inside a C call could not answer it anyway.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        comm = gqsgd.Communicator.process(unique_id, rank, rank_count)
        for index, run in enumerate(runs):
            def report(step, loss, index=index):
                if rank == 0:
                    pipe.send(("progress", index, step, loss))

            pipe.send(("outcome", index, Trainer(comm, run).train(report)))
        pipe.send(("done",))
    except (gqsgd.GqsgdError, OSError, ValueError, MemoryError) as error:
        with contextlib.suppress(OSError):  # where the parent is gone, no process is left to notify
            pipe.send(("failed", f"{type(error).__name__}: {error}"))


class _Listener:
    """Collects messages until every rank is done or one has failed."""

    def __init__(self, processes, pipes, run_count, on_progress):
        self.processes, self.pipes, self.on_progress = processes, pipes, on_progress
        self.outcomes = [[None] * len(pipes) for _ in range(run_count)]
        self.open_ranks = set(range(len(pipes)))
        self.failures = {}

    def listen(self):
        deadline = time.monotonic() + SILENCE_MAX_S
        while self.open_ranks:
            ready = wait([self.pipes[rank] for rank in self.open_ranks],
                         timeout=max(0.0, deadline - time.monotonic()))
            if not ready:
                break
            for pipe in ready:
                self._hear(self.pipes.index(pipe))
            deadline = time.monotonic() + SILENCE_MAX_S
            if self.failures:
                deadline = time.monotonic() + GRACE_S
        if self.failures or self.open_ranks:
            raise RanksFailed(self._account())
        return self.outcomes

    def _hear(self, rank):
        try:
            kind, *rest = self.pipes[rank].recv()
        except EOFError:  # the process is gone without a last word
            self.processes[rank].join()
            self.failures[rank] = f"died, exit code {self.processes[rank].exitcode}"
            self.open_ranks.discard(rank)
            return
        if kind == "progress":
            self.on_progress(*rest)
        elif kind == "outcome":
            index, outcome = rest
            self.outcomes[index][rank] = outcome
            if rank == 0:
                self.on_progress(index, None, outcome.losses[-1])
        else:
            self.open_ranks.discard(rank)
            if kind == "failed":
                self.failures[rank] = rest[0]

    def _account(self):
        silent = {rank: "silent; killed" for rank in self.open_ranks}
        known = {**silent, **self.failures}
        return "\n".join(f"  rank {rank}: {known[rank]}" for rank in sorted(known))
