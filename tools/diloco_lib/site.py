"""One site of tools/diloco_table between namespaces, by plain PyTorch. Rank 0 prints JSON: values,
and for each contender seconds and bytes of each outer step.

    site.py SETTING (JSON: width, layers, seed, rounds, inner_steps)

The environment is torchrun's. The training goes on by float32; every contender makes an outer step
of the same changes, in turn.
"""

import gc
import json
import os
import sys
import time

import gqsgd
import torch
import torch.distributed as dist
from adaptive_study import networks
from diloco import OuterStep
from diloco_lib.contenders import FLOAT32, NAMES, OURS, Live, simulated
from diloco_lib.training import Site
from diloco_lib.wire import sent_bytes

_PORT = 29501  # of Gloo; the library's is torchrun's


class Contender:
    """Parameters of its own, on which it makes the outer step of what the site has changed."""

    def __init__(self, name, site, comm, seed):
        self.live = Live(name, comm, [p.shape for p in site.parameters], seed)
        self.parameters = [p.detach().clone() for p in site.parameters]
        self.outer = OuterStep(self.parameters, self.live.average)
        self.seconds, self.bytes = [], []

    def step(self, outer, site):
        """`outer` is where the site began; returns its change and the mean of all."""
        self.outer.begin.copy_(outer.begin)
        for own, parameter in zip(self.parameters, site.parameters, strict=True):
            own.data.copy_(parameter.data)
        change = self.outer.change()
        dist.barrier()
        before, begin_s = sent_bytes(), time.perf_counter()
        self.outer.step()
        self.seconds.append(time.perf_counter() - begin_s)
        dist.barrier()  # what waits in the queue of the link is sent by then
        self.bytes.append(sent_bytes() - before)
        return change, self.outer.begin.grad


def check_bits(contender, change, mean, seed):
    """The table of losses is for this network: its virtual sites have the same bits."""
    changes = [torch.empty_like(change) for _ in range(dist.get_world_size())]
    dist.all_gather(changes, change)
    expected = simulated(contender.live.name, changes, None, contender.live.step - 1, seed)
    assert torch.equal(mean, expected), f"{contender.live.name} differs from virtual sites"


def rounds(setting, comm):
    seed = setting["seed"]
    site = Site(networks.language_task(), comm.rank, seed, setting["width"], setting["layers"])
    contenders = {name: Contender(name, site, comm, seed) for name in NAMES}
    outer = OuterStep(site.parameters, dist.all_reduce)  # only its begin is used
    for number in range(-1, setting["rounds"]):  # the first round warms up
        site.inner_steps(setting["inner_steps"])
        for name, contender in contenders.items():
            change, mean = contender.step(outer, site)
            if number == -1 and name in OURS:
                check_bits(contender, change, mean, seed)
        outer.begin.copy_(contenders[FLOAT32].outer.begin)
        torch.nn.utils.vector_to_parameters(outer.begin.clone(), site.parameters)
    return len(outer.begin), contenders


def main():
    setting = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]),
                            world_size=int(os.environ["WORLD_SIZE"]),
                            init_method=f"tcp://{os.environ['MASTER_ADDR']}:{_PORT}")
    with gqsgd.Communicator.from_env(timeout_ms=120_000) as comm:
        value_count, contenders = rounds(setting, comm)
        found = {"values": value_count, "contenders": {}}
        for name, contender in contenders.items():
            slowest = torch.tensor(contender.seconds[1:], dtype=torch.float64)
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            most = torch.tensor(contender.bytes[1:])
            dist.all_reduce(most, op=dist.ReduceOp.MAX)
            found["contenders"][name] = {"seconds": slowest.tolist(), "bytes": most.tolist()}
        if comm.rank == 0:
            print(json.dumps(found))
        dist.barrier()
    del contenders
    gc.collect()  # what still has the group: threads of Gloo abort if Python ends under them
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
