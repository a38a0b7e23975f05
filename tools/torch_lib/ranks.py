"""Ranks as processes of one Gloo group, each doing the same list of jobs."""

import multiprocessing
import sys
import tempfile

import torch.distributed as dist


def run(size, jobs, timeout_s):
    """Results of all `jobs`, (function, arguments) each, as rank 0 has them; others' are equal in
    what matters: times are the slowest rank's where a barrier follows."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        pipes = [context.Pipe(duplex=False) for _ in range(size)]
        processes = [
            context.Process(target=_rank, args=(rank, size, folder, jobs, pipe[1]), daemon=True)
            for rank, pipe in enumerate(pipes)
        ]
        for process in processes:
            process.start()
        for _, theirs in pipes:
            theirs.close()
        try:
            results = []
            for function, arguments in jobs:
                print(function.__name__, *arguments, file=sys.stderr, flush=True)
                if not pipes[0][0].poll(timeout_s):
                    raise TimeoutError(f"a job took more than {timeout_s} s")
                results.append(pipes[0][0].recv())
            for process in processes:
                process.join(timeout_s)
        finally:
            for process in processes:
                process.kill()
    return results


def _rank(rank, size, folder, jobs, pipe):
    import torch

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=size)
    for function, arguments in jobs:
        dist.barrier()
        pipe.send(function(*arguments))
    dist.destroy_process_group()
