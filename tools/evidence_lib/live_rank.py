"""One rank of a domain's training under DistributedDataParallel, on a host of its own.

    live_rank.py DOMAIN SEED COMPUTE_MS STEPS NAME

Rank 0 prints JSON: {"step_s": median of STEPS steps of the contender NAME, "curve": [[step,
seconds, loss on held-out data]]}. The curve is another training, which ends at the quality.
Gradients come evenly over the last two thirds of COMPUTE_MS, as from an accelerator; what looks
at held-out data is not timed.
"""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist
from evidence_lib.contenders import hook_of
from evidence_lib.domains import DOMAINS, Training
from torch.nn.parallel import DistributedDataParallel
from torch_lib.hooks import register

_WARM_STEPS = 4  # buckets are laid out again, PowerSGD begins to compress


class Pace:
    """Holds each gradient back until its share of the compute has passed."""

    def __init__(self, parameters, compute_s):
        self._total = sum(parameter.numel() for parameter in parameters)
        self._compute_s, self._begin_s, self._ready = compute_s, 0.0, 0
        for parameter in parameters:
            parameter.register_hook(self._hold)

    def begin(self):
        self._begin_s, self._ready = time.perf_counter(), 0

    def passed_s(self):
        return time.perf_counter() - self._begin_s

    def _hold(self, gradient):
        self._ready += gradient.numel()
        due_s = self._compute_s / 3 * (1 + 2 * self._ready / self._total)
        time.sleep(max(0.0, due_s - self.passed_s()))


class LiveTraining:
    """A domain's training whose gradients a hook averages."""

    def __init__(self, domain, seed, compute_s, name):
        self.training = Training(domain, seed)
        parameters = list(self.training.network.parameters())
        self._pace = Pace(parameters, compute_s)
        self._model = DistributedDataParallel(self.training.network, broadcast_buffers=False)
        self._state = register(hook_of(name), self._model)

    def step(self):
        """Its seconds, on the slowest rank."""
        training, rank = self.training, dist.get_rank()
        batch = training.batches(dist.get_world_size())[rank]
        training.optimizer.zero_grad()
        dist.barrier()
        self._pace.begin()
        training.task.loss_of(self._model, *batch).backward()
        training.optimizer.step()
        seconds = torch.tensor(self._pace.passed_s(), dtype=torch.float64)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        return float(seconds)

    def close(self):
        if self._state is not None:
            self._state.close()


def step_seconds(domain, seed, compute_s, step_count, name):
    """Median of a training that goes no further."""
    live = LiveTraining(domain, seed, compute_s, name)
    seconds = [live.step() for _ in range(_WARM_STEPS + step_count)]
    live.close()
    return statistics.median(seconds[_WARM_STEPS:])


def curve(domain, seed, compute_s, name):
    live, passed_s = LiveTraining(domain, seed, compute_s, name), 0.0
    found = [[0, 0.0, round(live.training.quality(), 5)]]
    for step in range(1, domain.most_steps + 1):
        passed_s += live.step()
        if step % domain.evaluate_every == 0:
            loss = torch.tensor(live.training.quality(), dtype=torch.float64)
            dist.broadcast(loss, 0)  # all ranks end at the same step
            found.append([step, round(passed_s, 4), round(float(loss), 5)])
            if not float(loss) > domain.quality:
                break
    live.close()
    return found


def main():
    domain, seed, compute_s = DOMAINS[sys.argv[1]], int(sys.argv[2]), float(sys.argv[3]) * 1e-3
    step_count, name = int(sys.argv[4]), sys.argv[5]
    dist.init_process_group("gloo")
    step_s = step_seconds(domain, seed, compute_s, step_count, name)
    found = {"step_s": round(step_s, 5), "curve": curve(domain, seed, compute_s, name)}
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
