"""One rank of sums over Gloo, by PyTorch: prints JSON, {"seconds": of each call, "nmse"}.

    gloo_rank.py COUNT ITERATIONS DTYPE

The environment is torchrun's. Values are float32. With a DTYPE of 16 bits they travel in it, as
with PyTorch's fp16_compress_hook and bf16_compress_hook: cast before the allreduce, and back after
it. nmse is the squared error over the square of the exact sum, of normal values.
"""

import json
import sys
import time

import torch
import torch.distributed as dist


def add(values, dtype):
    """In place, over all ranks; what is timed."""
    if dtype == torch.float32:
        dist.all_reduce(values)
        return
    short = values.to(dtype)
    dist.all_reduce(short)
    values.copy_(short)


def timed(inputs, dtype):
    """Seconds of one call, and its sums."""
    values = inputs.clone()
    dist.barrier()
    begin = time.perf_counter()
    add(values, dtype)
    return time.perf_counter() - begin, values


def error_of(result, inputs):
    exact = inputs.to(torch.float64)
    dist.all_reduce(exact)
    return (((result - exact) ** 2).sum() / (exact ** 2).sum()).item()


def main():
    count, iterations, dtype = int(sys.argv[1]), int(sys.argv[2]), getattr(torch, sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    inputs = torch.randn(count, generator=torch.Generator().manual_seed(rank))
    seconds = []
    for _ in range(iterations + 2):  # two to warm up
        call_s, result = timed(inputs, dtype)
        seconds.append(call_s)
    nmse = error_of(result, inputs)
    assert nmse < 1e-4, nmse  # a time is worth nothing if the numbers are wrong
    slowest = torch.tensor(seconds[2:], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    if rank == 0:
        print(json.dumps({"seconds": slowest.tolist(), "nmse": nmse}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
