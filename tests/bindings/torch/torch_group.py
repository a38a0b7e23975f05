"""TorchGroup: processes that form one Gloo group and run the jobs of many tests."""

import multiprocessing
import os
import tempfile
import time
import traceback
from pathlib import Path

TIMEOUT_S = 100  # of a job; on a machine of its own the slowest takes a few seconds


class TorchGroup:
    """`size` processes with an initialised default group of torch.distributed.

    A job is a function of a test module, called on every rank with the arguments given; whatever it
    leaves in the process the next job finds.
    """

    def __init__(self, size):
        self.size = size
        self._folder = tempfile.TemporaryDirectory()
        context = multiprocessing.get_context("forkserver")
        # These take seconds, here once.
        context.set_forkserver_preload(["torch.distributed.fsdp", "torch._dynamo"])
        self._pipes, self._processes = [], []
        for rank in range(size):
            ours, theirs = context.Pipe()
            arguments = theirs, rank, size, self._folder.name
            process = context.Process(target=serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    @property
    def alive(self):
        return all(process.is_alive() for process in self._processes)

    def run(self, job, *arguments, timeout_s=TIMEOUT_S):
        """`job(*arguments)` on all ranks; the results in rank order. A failure on a rank is one
        here, and so is a job that does not end; after that the processes are gone."""
        for pipe in self._pipes:
            pipe.send((job, arguments))
        deadline = time.monotonic() + timeout_s
        results, failures = [], []
        for rank, pipe in enumerate(self._pipes):
            try:
                arrived = pipe.poll(max(0, deadline - time.monotonic()))
                good, result = pipe.recv() if arrived else (False, f"no end in {timeout_s} s")
            except EOFError:
                good, result = False, "the process has died"
            results.append(result)
            if not good:
                failures.append(f"rank {rank}:\n{result}")
        if failures:
            self.close()
            raise AssertionError("\n".join(failures))
        return results

    def close(self):
        for process in self._processes:
            process.kill()
            process.join()
        for pipe in self._pipes:
            pipe.close()
        self._folder.cleanup()


def serve(pipe, rank, size, folder):
    """One rank: does what comes through the pipe until it is closed."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    import torch

    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), GQSGD_TEST_FOLDER=folder)
    rendezvous("first")
    while True:
        try:
            job, arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer = True, job(*arguments)
        except BaseException:
            answer = False, traceback.format_exc()
        pipe.send(answer)


def rendezvous(name):
    """Makes the default group; `name` is a new one for each time."""
    import torch.distributed as dist

    file = Path(os.environ["GQSGD_TEST_FOLDER"]) / name
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=size)
