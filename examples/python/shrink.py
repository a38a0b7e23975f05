"""Four processes fit a line of 2,000 weights together, in 8-bit codes; two of them are killed. The
others go on without, and at the end have the same bits.

    python shrink.py
"""

import hashlib
import multiprocessing
import os
import signal

import gqsgd
import numpy as np

RANK_COUNT, STEPS, WEIGHTS = 4, 24, 2000
KILLED = {6: 3, 12: 1}  # at which step which rank


def mean_of(comm, gradient, quantizer):
    """The mean over the ranks that are left, in place, and the communicator to go on with."""
    while True:
        try:
            comm.allreduce(gradient, quantizer, op="mean", out=gradient)
            return comm
        except (gqsgd.PeerLost, gqsgd.Revoked, gqsgd.Timeout):
            shrunk = comm.shrink(out=gradient)
            comm.close()
            comm = shrunk.comm
            print(f"old ranks {shrunk.members} go on; calls: {shrunk.calls}\n", end="", flush=True)
            if shrunk.calls == "finished":
                return comm


def work(unique_id, rank):
    """One rank, in a process of its own, with data of its own."""
    random = np.random.default_rng(rank)
    target = np.random.default_rng(99).standard_normal(WEIGHTS, np.float32)
    weights, quantizer = np.zeros(WEIGHTS, np.float32), gqsgd.Quantizer("blocks-8")
    comm = gqsgd.Communicator.process(unique_id, rank, RANK_COUNT)
    for step in range(STEPS):
        noise = random.standard_normal(WEIGHTS, np.float32)
        if KILLED.get(step) == rank:
            os.kill(os.getpid(), signal.SIGKILL)
        gradient = weights - target + np.float32(0.1) * noise
        comm = mean_of(comm, gradient, quantizer)
        weights -= np.float32(0.3) * gradient
    error = np.linalg.norm(weights - target) / np.linalg.norm(target)
    digest = hashlib.sha256(weights.tobytes()).hexdigest()[:16]
    print(f"{comm.size} ranks: error {error:.3f}, weights {digest}\n", end="", flush=True)
    comm.close()


def main():
    context = multiprocessing.get_context("spawn")
    unique_id = gqsgd.unique_id()
    ranks = [context.Process(target=work, args=(unique_id, rank)) for rank in range(RANK_COUNT)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    ended = [process.exitcode for process in ranks]
    return int(ended != [-signal.SIGKILL if rank in KILLED.values() else 0
                         for rank in range(RANK_COUNT)])


if __name__ == "__main__":
    raise SystemExit(main())
