"""One rank of test_network_ranks.py and test_hosts.py: `network_rank.py RANK SIZE JOB`. Rank 0
writes the id to standard output, the others have it on their standard input; `env` in the place of
RANK joins what the environment describes. Then the result of the job follows on standard output."""

import os
import sys
import time
from pathlib import Path

import gqsgd
import numpy as np
from process_rank import death, forked, mean, measured

OPTIONS = {"timeout_ms": 20000}


def transport(comm):
    return comm.transport.encode()


def mean_and_transport(comm):
    return mean(comm) + transport(comm)


def hex_mean_and_transport(comm):
    return f"{mean(comm).hex()} {comm.transport}".encode()


def idle(comm):
    """Calls after each of which ranks wait for each other outside of the library, in files: one
    that has its result is needed by no other."""
    folder, q = Path(os.environ["TEST_FOLDER"]), gqsgd.Quantizer("none")
    values = np.ones(200_000, np.float32)
    for step in range(300):
        comm.allreduce(values, q)
        (folder / f"{comm.rank} {step}").touch()
        while not all((folder / f"{rank} {step}").exists() for rank in range(comm.size)):
            time.sleep(0.001)
    return b"through"


def joined(rank, size):
    if rank == "env":
        return gqsgd.Communicator.from_env(**OPTIONS)
    if rank == "0":
        unique_id = gqsgd.network_id(interface="lo")
        sys.stdout.buffer.write(unique_id)
        sys.stdout.flush()
    else:
        unique_id = sys.stdin.buffer.read(256)
    return gqsgd.Communicator.network(unique_id, int(rank), int(size), interface="lo", **OPTIONS)


JOBS = {job.__name__: job for job in (death, forked, idle, mean, measured, transport,
                                      mean_and_transport, hex_mean_and_transport)}


def main():
    rank, size, name = sys.argv[1:]
    with joined(rank, size) as comm:
        sys.stdout.buffer.write(JOBS[name](comm))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
