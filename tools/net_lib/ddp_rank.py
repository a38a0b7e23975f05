"""One rank of training steps under DistributedDataParallel: the same network by every hook,
alternately. Rank 0 prints JSON: values of a gradient, and for each hook its seconds per step (each
as slow as its slowest rank) and its losses.

    ddp_rank.py WIDTH LAYERS BUCKET_MB COMPUTE_MS STEPS HOOK..

LAYERS are hidden ones; with a BUCKET_MB of 0 buckets are PyTorch's own. The environment is
torchrun's. Hooks are those of torch_lib/hooks.py by name. Buckets travel while
backward goes on: an accelerator is stood in for by layers whose gradients come at fixed times.
"""

import json
import sys
import time

import torch
import torch.distributed as dist
from net_lib.step_data import CLASSES, PIXELS, batch, check_replicas, teacher
from torch.nn.parallel import DistributedDataParallel
from torch_lib.hooks import ALONE, register

LEARNING_RATE = 0.01
FORWARD_SHARE = 1 / 3  # of the time of a step without communication
WARM_STEPS = 4  # buckets are laid out again, PowerSGD begins to compress


class Clock:
    """The time at which a step began, for its layers."""

    begin = 0.0


class Gate(torch.autograd.Function):
    """Holds the gradient of what it is given back until `due_s` after the begin of the step."""

    @staticmethod
    def forward(ctx, values, clock, due_s):
        ctx.clock, ctx.due_s = clock, due_s
        return values.view_as(values)

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(max(0.0, ctx.clock.begin + ctx.due_s - time.perf_counter()))
        return gradient, None, None


class Paced(torch.nn.Module):
    """A perceptron whose backward takes as long as `compute_s` says, layer by layer from the
    last."""

    def __init__(self, width, layer_count, compute_s, clock):
        super().__init__()
        sizes = [PIXELS, *[width] * layer_count, CLASSES]
        self.layers = torch.nn.ModuleList(map(torch.nn.Linear, sizes, sizes[1:]))
        for layer in self.layers:
            torch.nn.init.kaiming_normal_(layer.weight)
        self.clock, self.compute_s = clock, compute_s

    def forward(self, x):
        count = len(self.layers)
        for k, layer in enumerate(self.layers):
            x = layer(x if k == 0 else torch.relu(x))
            after = (count - k) / count  # share of backward until this layer's gradient is there
            due_s = self.compute_s * (FORWARD_SHARE + (1 - FORWARD_SHARE) * after)
            x = Gate.apply(x, self.clock, due_s)
        return x


class Contender:
    """A replica of the network with one of the hooks."""

    def __init__(self, name, width, layer_count, bucket_mb, compute_s):
        torch.manual_seed(1)  # the same first weights everywhere
        self.name, self.clock = name, Clock()
        self.model = DistributedDataParallel(Paced(width, layer_count, compute_s, self.clock),
                                             bucket_cap_mb=bucket_mb or None)
        self.state = register(name, self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=LEARNING_RATE)
        self.parameters = list(self.model.parameters())
        self.seconds, self.losses = [], []

    def step(self, images, labels):
        dist.barrier()
        self.clock.begin = time.perf_counter()
        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - self.clock.begin)
        self.losses.append(loss.item())

    def close(self):
        if self.state is not None:
            self.state.close()


def main():
    width, layer_count, bucket_mb = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    compute_s, step_count = float(sys.argv[4]) * 1e-3, int(sys.argv[5])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    contenders = [Contender(name, width, layer_count, bucket_mb, compute_s)
                  for name in sys.argv[6:]]
    for number in range(WARM_STEPS + step_count):
        images, labels = batch(dist.get_rank(), number, teacher())
        for contender in contenders:
            contender.step(images, labels)
    found = {"values": sum(p.numel() for p in contenders[0].parameters), "hooks": {}}
    for contender in contenders:
        if contender.name != ALONE:
            check_replicas(contender)
        seconds = torch.tensor(contender.seconds[WARM_STEPS:], dtype=torch.float64)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        found["hooks"][contender.name] = {"seconds": seconds.tolist(), "losses": contender.losses}
        contender.close()
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
