"""Trains one network on several sites by DiLoCo: the sites meet every 20 steps, in 4 bits.

    torchrun --standalone --nproc-per-node 2 examples/python/diloco.py

Between machines give torchrun its usual options, and GQSGD_INTERFACE where there are several. Needs
PyTorch and scikit-learn.
"""

import gqsgd
import torch
from sklearn.datasets import load_digits
from torch.nn.utils import parameters_to_vector, vector_to_parameters

OUTER_STEPS = 15
INNER_STEPS = 20  # of each site alone, between two outer steps
BATCH_SIZE = 32  # of each site


class OuterStep:
    """Averages what the sites have changed, as a gradient of SGD with Nesterov momentum.

    average: a function that replaces a flat float32 tensor by its mean over the sites, in place.
    """

    def __init__(self, parameters, average, lr=0.7, momentum=0.9):
        self.parameters = list(parameters)
        self.average = average
        self.begin = parameters_to_vector(self.parameters).detach().clone()  # equal on all sites
        self.optimizer = torch.optim.SGD([self.begin], lr, momentum=momentum, nesterov=True)

    @torch.no_grad()
    def change(self):
        """What this site has changed since the last outer step, flat."""
        return self.begin - parameters_to_vector(self.parameters)

    @torch.no_grad()
    def step(self):
        """All sites call; afterwards all have the same parameters, bit for bit."""
        self.begin.grad = self.change()
        self.average(self.begin.grad)
        self.optimizer.step()
        vector_to_parameters(self.begin.clone(), self.parameters)


def main():
    torch.manual_seed(0)  # the same first weights on all sites
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    digits = load_digits()
    order = torch.randperm(len(digits.target))
    images = torch.tensor(digits.data, dtype=torch.float32)[order] / 16
    labels = torch.tensor(digits.target)[order]

    with gqsgd.Communicator.from_env() as comm:
        q = gqsgd.Quantizer("rotated-4")

        def average(delta):
            comm.allreduce(delta, q, op="mean", out=delta)

        own = torch.arange(comm.rank, 1400, comm.size)  # this site's images
        inner = torch.optim.AdamW(net.parameters(), lr=1e-3)
        outer = OuterStep(net.parameters(), average)
        torch.manual_seed(comm.rank)  # of the batches
        for step in range(OUTER_STEPS):
            for _ in range(INNER_STEPS):
                batch = own[torch.randint(len(own), (BATCH_SIZE,))]
                inner.zero_grad()
                torch.nn.functional.cross_entropy(net(images[batch]), labels[batch]).backward()
                inner.step()
            outer.step()
            if comm.rank == 0:
                with torch.no_grad():
                    accuracy = (net(images[1400:]).argmax(1) == labels[1400:]).float().mean()
                print(f"outer step {step}: accuracy {accuracy:.3f}", flush=True)
        if comm.rank == 0:
            print(f"{comm.stats()['payload_bytes_sent'] / OUTER_STEPS / 1e3:.1f} kB sent in an "
                  f"outer step; {4 * len(outer.begin) / 1e3:.1f} kB of float32 parameters")


if __name__ == "__main__":
    main()
