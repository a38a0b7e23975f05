"""fully_shard (FSDP2) with gradients in 8 bits:

    pip install scikit-learn    # its images of handwritten digits
    torchrun --standalone --nproc-per-node 2 examples/python/fsdp2.py
"""

import gc

import gqsgd.torch
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def train():
    rank, size = dist.get_rank(), dist.get_world_size()
    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images[rank::size] / 16, dtype=torch.float32)  # this rank's share
    labels = torch.tensor(labels[rank::size])

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128), torch.nn.ReLU(),
        torch.nn.Linear(128, 10),
    )
    mesh = init_device_mesh("cpu", (size,))
    for module in [*net[::2], net]:  # each layer by itself, then what is left
        fully_shard(module, mesh=mesh)
    gqsgd.torch.ReduceScatter("blocks-8").attach(net)

    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(8):
        for batch in torch.randperm(len(labels)).split(64)[:10]:  # as many on every rank
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(images[batch]), labels[batch]).backward()
            optimizer.step()
        right = (net(images).argmax(1) == labels).float().mean()
        dist.all_reduce(right)
        if rank == 0:
            print(f"epoch {epoch}: accuracy {right.item() / size:.4f}")


def main():
    dist.init_process_group("gloo")
    train()
    gc.collect()  # what still has the group: threads of Gloo abort if Python ends under them
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
