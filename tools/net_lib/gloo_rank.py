"""One rank of a float32 allreduce over Gloo, by PyTorch: prints a JSON line of seconds per call.

    gloo_rank.py RANK SIZE ADDRESS COUNT ITERATIONS
"""

import json
import sys
import time

import torch
import torch.distributed as dist


def main():
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    address, count, iterations = sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://{address}", rank=rank, world_size=size)
    values = torch.full((count,), float(rank + 1))
    expected = size * (size + 1) / 2
    seconds = []
    for _ in range(iterations + 2):  # two to warm up
        values.fill_(float(rank + 1))
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(values)
        seconds.append(time.perf_counter() - begin)
    assert values[0] == expected and values[-1] == expected
    slowest = torch.tensor(seconds[2:], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    if rank == 0:
        print(json.dumps(slowest.tolist()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
