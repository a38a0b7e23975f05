"""Hybrid sharding (HSDP) on two machines: each has a replica of the model, which its ranks share;
gradients travel between the machines in 8 bits. On both, with the same --node-rank, 0 or 1:

    pip install scikit-learn    # its images of handwritten digits
    torchrun --nnodes 2 --node-rank 0 --nproc-per-node 2 --master-addr 10.0.0.1 \\
        --master-port 29500 examples/python/hsdp.py
"""

import gc
import os

import gqsgd.torch
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def train():
    rank, size = dist.get_rank(), dist.get_world_size()
    ranks_per_machine = int(os.environ["LOCAL_WORLD_SIZE"])
    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images[rank::size] / 16, dtype=torch.float32)  # this rank's share
    labels = torch.tensor(labels[rank::size])

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128), torch.nn.ReLU(),
        torch.nn.Linear(128, 10),
    )
    mesh = init_device_mesh("cpu", (size // ranks_per_machine, ranks_per_machine),
                            mesh_dim_names=("replicate", "shard"))
    for module in [*net[::2], net]:  # each layer by itself, then what is left
        fully_shard(module, mesh=mesh["shard"])
    state = gqsgd.torch.AllReduce("blocks-8", mesh["replicate"]).attach(net)

    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(8):
        for batch in torch.randperm(len(labels)).split(64)[:6]:  # as many on every rank
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(images[batch]), labels[batch]).backward()
            optimizer.step()
        right = (net(images).argmax(1) == labels).float().mean()
        dist.all_reduce(right)
        if rank == 0:
            print(f"epoch {epoch}: accuracy {right.item() / size:.4f}")
    if rank == 0:
        print(state.summary())
    state.close()


def main():
    dist.init_process_group("gloo")
    train()
    gc.collect()  # what still has the group: threads of Gloo abort if Python ends under them
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
