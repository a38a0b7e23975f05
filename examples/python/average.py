"""Four processes average their vectors in 8-bit codes; every one ends with the same bits."""

import multiprocessing

import gqsgd
import numpy as np

RANK_COUNT = 4


def work(unique_id, rank):
    """One rank, in a process of its own."""
    values = np.array([rank, rank + 1, rank + 2, -6], np.float32)
    with gqsgd.Communicator.process(unique_id, rank, RANK_COUNT) as comm:
        mean = comm.allreduce(values, gqsgd.Quantizer("blocks-8"), op="mean")
    line = " ".join([f"rank {rank}:", *(f"{value:.4f}" for value in mean)])
    print(line + "\n", end="", flush=True)  # one write: ranks print at the same time


def main():
    context = multiprocessing.get_context("spawn")
    unique_id = gqsgd.unique_id()
    ranks = [context.Process(target=work, args=(unique_id, rank)) for rank in range(RANK_COUNT)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    return max(abs(process.exitcode) for process in ranks)


if __name__ == "__main__":
    raise SystemExit(main())
