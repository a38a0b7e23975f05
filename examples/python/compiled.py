"""A whole training step as one compiled graph, the allreduce of its gradients among them:

    torchrun --standalone --nproc-per-node 2 examples/python/compiled.py
"""

import sys

import gqsgd.torch
import torch
import torch.distributed as dist


def step(weight, inputs, targets):
    """The gradient of this rank's error, averaged over all ranks in 8 bits, and a step along it."""
    error = inputs @ weight - targets
    gradient = inputs.T @ error / len(inputs)
    return weight - 0.3 * gqsgd.torch.allreduce(gradient, "blocks-8"), error.square().mean()


def main():
    dist.init_process_group("gloo")
    backend = sys.argv[1] if len(sys.argv) > 1 else "inductor"
    compiled = torch.compile(step, fullgraph=True, backend=backend)

    torch.manual_seed(0)
    solution, weight = torch.randn(64, 8), torch.zeros(64, 8)
    torch.manual_seed(1 + dist.get_rank())  # every rank has data of its own
    for number in range(50):
        inputs = torch.randn(256, 64)
        weight, error = compiled(weight, inputs, inputs @ solution)
        if dist.get_rank() == 0 and number % 10 in (0, 9):
            print(f"step {number}: error {error.item():.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
