"""Trains a classifier of handwritten digits on several processes, with gradients in 8 bits.

    torchrun --standalone --nproc-per-node 2 examples/python/ddp.py

Plain DistributedDataParallel, but for the lines with gqsgd in them and the summary at the end.
"""

import gqsgd.torch
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel

EPOCH_COUNT = 8
BATCH_SIZE = 32  # of each process


def load(rank, size):
    """This process's share of the training images and labels, and all of the test set's."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(digits.data, dtype=torch.float32)[order] / 16
    labels = torch.tensor(digits.target)[order]
    share = slice(rank, 1400 - 1400 % size, size)  # equal ones: all take the same number of steps
    return (images[:1400][share], labels[:1400][share]), (images[1400:], labels[1400:])


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 10),
    )
    model = DistributedDataParallel(net)
    state = gqsgd.torch.HookState("blocks-8")
    model.register_comm_hook(state, gqsgd.torch.allreduce_hook)

    (images, labels), (test_images, test_labels) = load(dist.get_rank(), dist.get_world_size())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCH_COUNT):
        for batch in torch.randperm(len(labels)).split(BATCH_SIZE):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            with torch.no_grad():
                accuracy = (net(test_images).argmax(1) == test_labels).float().mean()
            print(f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy:.4f}", flush=True)
    summary = state.summary(measure=True)  # on every rank: they measure the error together
    if dist.get_rank() == 0:
        print(summary, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
