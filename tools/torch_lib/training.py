"""The training of the table: a perceptron that learns handwritten digits under DDP."""

import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from torch_lib.hooks import register
from torch_lib.sent import hook_bytes

WIDTH = 1024
BATCH_SIZE = 32
WARM_STEP_COUNT = 5  # buckets are rebuilt, PowerSGD begins to compress


def perceptron(seed):
    """Two million parameters, so that gradients take 8.6 MB in float32."""
    torch.manual_seed(seed)
    sizes = [64, WIDTH, WIDTH, WIDTH, 10]
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def digits():
    """All images and labels."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return torch.tensor(data.data, dtype=torch.float32) / 16, torch.tensor(data.target)


def train(name, seed, step_count):
    """(median ms of a step, bytes sent by a rank in a step, mean loss of the last tenth)."""
    images, labels = digits()
    model = DistributedDataParallel(perceptron(seed), bucket_cap_mb=4)
    state = register(name, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(1000 * seed + dist.get_rank())
    times_ms, losses, sent_bytes = [], [], 0
    for step in range(step_count):
        batch = torch.randint(0, len(labels), (BATCH_SIZE,), generator=generator)
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        times_ms.append(1e3 * (time.perf_counter() - begin))
        losses.append(loss.item())
        if step == WARM_STEP_COUNT - 1:
            sent_bytes = hook_bytes(name, state)
    sent_bytes = (hook_bytes(name, state) - sent_bytes) / (step_count - WARM_STEP_COUNT)
    last = torch.tensor(losses[-max(1, step_count // 10):]).mean()
    dist.all_reduce(last)
    if state is not None:
        state.close()
    return (statistics.median(times_ms[WARM_STEP_COUNT:]), sent_bytes,
            last.item() / dist.get_world_size())
