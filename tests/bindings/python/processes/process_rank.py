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


def main():
    rank, size, job = int(sys.argv[1]), int(sys.argv[2]), globals()[sys.argv[3]]
    unique_id = sys.stdin.buffer.read(256)
    with gqsgd.Communicator.process(unique_id, rank, size, timeout_ms=20000) as comm:
        sys.stdout.buffer.write(job(comm))


if __name__ == "__main__":
    main()
