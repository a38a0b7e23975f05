"""One rank of test_process.py: `process_rank.py RANK SIZE JOB`, the unique id on standard input."""

import os
import signal
import sys

import gqsgd
import numpy as np


def gradient(rank):
    return np.random.default_rng(rank).standard_normal(1000, np.float32)


def mean(comm):
    """The bits of three allreduces in a row."""
    q = gqsgd.Quantizer("paper-gl8", seed=7)
    return b"".join(comm.allreduce(gradient(comm.rank), q).tobytes() for _ in range(3))


def resumed_mean(comm):
    """The third of those alone, as after a checkpoint."""
    comm.counter = 2
    return comm.allreduce(gradient(comm.rank), gqsgd.Quantizer("paper-gl8", seed=7)).tobytes()


def copied(comm):
    comm.allreduce(gradient(comm.rank), gqsgd.Quantizer("paper-gl8"))
    return str(comm.stats()["payload_bytes_copied"]).encode()


def death(comm):
    """Rank 1 dies; the others print what they got."""
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        comm.allreduce(gradient(comm.rank), gqsgd.Quantizer())
    except gqsgd.GqsgdError as error:
        return f"{error.name}: {error}".encode()
    return b"no error"


def forked(comm):
    """A child may not use its parent's communicator; the parent goes on."""
    child = os.fork()
    if child == 0:
        try:
            comm.allreduce(gradient(comm.rank), gqsgd.Quantizer())
        except gqsgd.Forked:
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    return b"forked" if status == 0 and len(mean(comm)) == 12000 else b"wrong"


def measured(comm):
    """What the ranks measured when they made their communicators, and a call after it."""
    bits = comm.allreduce(gradient(comm.rank), gqsgd.Quantizer(), step=1).tobytes()
    return comm.costs.encode() + b"\n" + bits


def death_in_measuring(comm):
    """Rank 1 measures nothing and dies; the others never get here."""
    os.kill(os.getpid(), signal.SIGKILL)


def options_of(job, rank):
    measures = job is measured or (job is death_in_measuring and rank != 1)
    return {"costs": "measure"} if measures else {}


def main():
    rank, size, job = int(sys.argv[1]), int(sys.argv[2]), globals()[sys.argv[3]]
    unique_id, options = sys.stdin.buffer.read(256), options_of(job, rank)
    try:
        comm = gqsgd.Communicator.process(unique_id, rank, size, timeout_ms=20000, **options)
    except gqsgd.GqsgdError as error:
        sys.stdout.buffer.write(f"{error.name}: {error}".encode())
        return
    with comm:
        sys.stdout.buffer.write(job(comm))


if __name__ == "__main__":
    main()
