"""What the hook adds to an allreduce of 25 MiB, and when buckets travel during a backward."""

import statistics
import time

import gqsgd.torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from torch_lib.training import BATCH_SIZE, digits, perceptron

SIDE = 2560  # 2560 x 2560 float32 values are 25 MiB


class Product(torch.nn.Module):
    """One parameter of 25 MiB."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(SIDE, SIDE))

    def forward(self, x):
        return (self.weight * x).sum()


class Timed:
    """A hook that notes when each bucket became ready and when it was done; with `together` on all
    ranks, so that none waits for another's backward."""

    def __init__(self, state, together):
        self.state, self.together, self.buckets = state, together, []

    def __call__(self, _, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        if self.together:
            dist.barrier()
        entry = [bucket.buffer().numel(), time.perf_counter(), None]
        self.buckets.append(entry)

        def done(future):
            entry[2] = time.perf_counter()
            return future.value()

        return self.state.reduce(bucket).then(done)


def timed(net, together=False, **options):
    """`net` under DDP with a timed hook of the default preset."""
    model = DistributedDataParallel(net, **options)
    state = gqsgd.torch.HookState("", model=model, transport="process")
    hook = Timed(state, together)

    def call(none, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        return hook(none, bucket)

    model.register_comm_hook(None, call)
    return model, hook


def overhead(repeat_count):
    """(ms of allreduce_many of 25 MiB, ms from a bucket's hook call to its end), medians of
    interleaved calls."""
    model, hook = timed(Product(), together=True, bucket_cap_mb=32)
    values = torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(dist.get_rank()))
    flat, quantizer = values.clone().reshape(-1), gqsgd.Quantizer()
    direct_ms = []
    for _ in range(repeat_count + 2):
        model.zero_grad()
        model(values).backward()
        comm = hook.state.communicator
        dist.barrier()
        begin = time.perf_counter()
        comm.allreduce_many([flat], quantizer, out=[flat])
        direct_ms.append(1e3 * (time.perf_counter() - begin))
    hook_ms = [1e3 * (end - begin) for _, begin, end in hook.buckets]
    hook.state.close()
    return statistics.median(direct_ms[2:]), statistics.median(hook_ms[2:])


def overlap(step_count):
    """Of the last of some steps: (value count, ready, done) of each bucket in ms since backward
    began, and when backward returned."""
    images, labels = digits()
    model, hook = timed(perceptron(0), bucket_cap_mb=4)
    for _ in range(step_count):
        hook.buckets.clear()
        model.zero_grad()
        inputs = images[:8 * BATCH_SIZE]
        loss = torch.nn.functional.cross_entropy(model(inputs), labels[:8 * BATCH_SIZE])
        begin = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
    hook.state.close()
    return [(count, 1e3 * (ready - begin), 1e3 * (done - begin))
            for count, ready, done in hook.buckets], 1e3 * (end - begin)
