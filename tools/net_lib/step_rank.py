"""One rank of training steps, under mpirun: the same network by every contender, alternately.

    step_rank.py GLOO_ADDRESS WIDTH COMPUTE_MS STEPS PRESETS FILE

Rank 0 writes to FILE a JSON object: values of a gradient, and for each contender its seconds per
step (each as slow as its slowest rank) and its losses.
"""

import ctypes
import json
import os
import sys
import time
from pathlib import Path

import gqsgd
import torch
import torch.distributed as dist
from gqsgd import _mpi
from net_lib.bench import GLOO
from net_lib.step_data import CLASSES, LEARNING_RATE, PIXELS, batch, check_equal, teacher


class Contender:
    """A replica of the network, and a way to average its gradient in place."""

    def __init__(self, name, width, average):
        torch.manual_seed(1)  # the same first weights everywhere
        self.name, self.average = name, average
        self.network = torch.nn.Sequential(
            torch.nn.Linear(PIXELS, width), torch.nn.ReLU(),
            torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, CLASSES))
        self.parameters = list(self.network.parameters())
        self.gradient = torch.zeros(sum(p.numel() for p in self.parameters))
        first = 0
        for p in self.parameters:  # gradients are views of one buffer, as in a bucket
            p.grad = self.gradient[first:first + p.numel()].view_as(p)
            first += p.numel()
        self.seconds, self.losses = [], []

    def step(self, number, images, labels, compute_s):
        begin = time.perf_counter()
        self.gradient.zero_()
        loss = torch.nn.functional.cross_entropy(self.network(images), labels)
        loss.backward()
        # What an accelerator would take: always the same, however many hosts share these cores.
        time.sleep(max(0.0, begin + compute_s - time.perf_counter()))
        self.average(self.gradient, number)
        with torch.no_grad():
            for p in self.parameters:
                p.sub_(p.grad, alpha=LEARNING_RATE)
        self.seconds.append(time.perf_counter() - begin)
        self.losses.append(loss.item())


def contenders(presets, width, comm):
    def over_gloo(gradient, number):
        dist.all_reduce(gradient)
        gradient /= comm.size

    yield Contender(GLOO, width, over_gloo)
    for preset in presets:
        q = gqsgd.Quantizer(preset)

        def over_mpi(gradient, number, q=q):
            values = gradient.numpy()
            comm.allreduce(values, q, schedule="direct", out=values, step=number)

        yield Contender(preset, width, over_mpi)


def run(comm, presets, width, compute_s, step_count):
    all_contenders = list(contenders(presets, width, comm))
    for number in range(step_count):
        images, labels = batch(comm.rank, number, teacher())
        for contender in all_contenders:
            dist.barrier()
            contender.step(number, images, labels, compute_s)
    found = {"values": all_contenders[0].gradient.numel(), "contenders": {}}
    for contender in all_contenders:
        check_equal(contender.parameters, f"replicas of {contender.name}")
        seconds = torch.tensor(contender.seconds[1:], dtype=torch.float64)  # the first warms up
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        found["contenders"][contender.name] = {"seconds": seconds.tolist(),
                                               "losses": contender.losses}
    return found


def main():
    address, width, compute_ms, steps, presets, file = sys.argv[1:]
    torch.set_num_threads(1)
    _mpi.library()  # brings MPI with it
    mpi = ctypes.CDLL(None)
    assert mpi.MPI_Init(None, None) == 0
    with gqsgd.Communicator.mpi(None, timeout_ms=60000) as comm:
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
        dist.init_process_group("gloo", init_method=f"tcp://{address}", rank=comm.rank,
                                world_size=comm.size)
        found = run(comm, presets.split(","), int(width), float(compute_ms) * 1e-3, int(steps))
        if comm.rank == 0:
            Path(file).write_text(json.dumps(found))
        dist.destroy_process_group()
    assert mpi.MPI_Finalize() == 0


if __name__ == "__main__":
    main()
