"""Small models and training steps that the jobs of these tests share."""

import hashlib

import gqsgd.torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def perceptron(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.LayerNorm(64),
        torch.nn.Linear(64, 4),
    )


class Mixed(torch.nn.Module):
    """A new DDP has a bucket for each type of its parameters: here two."""

    def __init__(self):
        super().__init__()
        self.net = perceptron()
        self.net[2].double()

    def forward(self, x):
        x = self.net[1](self.net[0](x)).double()
        return self.net[4](self.net[3](self.net[2](x).float()))


def hooked(net, quantizer="", *, ddp=None, **options):
    """`net` under DDP with several buckets and the hook; the model and its state."""
    options.setdefault("timeout_ms", 60000)
    model = DistributedDataParallel(net, **(ddp or {"bucket_cap_mb": 0.01}))
    state = gqsgd.torch.HookState(quantizer, model=model, **options)
    model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
    return model, state


def batch(step, seed=0):
    """Inputs and targets of this rank: a fixed linear map with noise."""
    generator = torch.Generator().manual_seed(1000 * seed + 10 * step + dist.get_rank())
    inputs = torch.randn(16, 32, generator=generator)
    targets = inputs[:, :4].sin() + 0.1 * torch.randn(16, 4, generator=generator)
    return inputs, targets


def train(model, steps, seed=0, optimizer=None):
    """Some steps of a regression; the loss of each."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in steps:
        inputs, targets = batch(step, seed)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def digest(tensors):
    """A hash of all bits."""
    text = hashlib.sha256()
    for tensor in tensors:
        values = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        text.update(values.numpy().tobytes())
    return text.hexdigest()


def gradients(model):
    return [parameter.grad for parameter in model.parameters()]


def local_gradients(model, loss_of):
    """What this rank alone would have: those of the module below DDP, for comparison."""
    with model.no_sync():
        loss_of(model).backward()
    found = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    return found
