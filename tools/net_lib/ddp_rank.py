"""One rank of steps under DistributedDataParallel: the same gradients by every hook, alternately.
Rank 0 prints JSON: values of a gradient, and for each hook its seconds per step (each as slow as
its slowest rank).

    ddp_rank.py WIDTH LAYERS BUCKET_MB COMPUTE_MS STEPS HOOK..

LAYERS are hidden ones; with a BUCKET_MB of 0 buckets are PyTorch's own. The environment is
torchrun's. Hooks are those of torch_lib/hooks.py by name.

An accelerator is stood in for: gradients come at fixed times, layer by layer from the last, so that
buckets travel while backward goes on. No processor computes them or copies them into buckets, as
those of an accelerator's host would not: they are put there before a step begins. There is no
update either. So the few processors of hosts are left to what a hook and the network do.
"""

import json
import sys
import time

import torch
import torch.distributed as dist
from net_lib.step_data import CLASSES, PIXELS, check_equal
from torch.nn.parallel import DistributedDataParallel
from torch_lib.hooks import ALONE, register

FORWARD_SHARE = 1 / 3  # of the time of a step without communication
WARM_STEPS = 4  # buckets are laid out again, PowerSGD begins to compress
START_S = 0.005  # after all ranks have agreed on it, a step begins


class Clock:
    """The time at which a step began, for its layers."""

    begin = 0.0


class Layer(torch.autograd.Function):
    """Passes on what it is given; its parameters are told that their gradients are there when they
    are due, in seconds after the begin of the step. Gradients are `gradients`, or without them
    those that the parameters have."""

    @staticmethod
    def forward(ctx, values, weight, bias, gradients, clock, due_s):
        ctx.gradients, ctx.clock, ctx.due_s = gradients, clock, due_s
        return values.view_as(values)

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(max(0.0, ctx.clock.begin + ctx.due_s - time.perf_counter()))
        return (gradient, *(ctx.gradients or (None, None)), None, None, None)


def made_gradients(sizes):
    """(weight's, bias's) of each layer, other ones on each rank."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    return [tuple(1e-3 * torch.randn(shape, generator=generator)
                  for shape in ((outputs, inputs), (outputs,)))
            for inputs, outputs in zip(sizes, sizes[1:])]


class Paced(torch.nn.Module):
    """The parameters of a perceptron; forward and backward take as long as `compute_s` says."""

    def __init__(self, gradients, compute_s, clock):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(weight.shape[1], weight.shape[0]) for weight, _ in gradients)
        self.gradients, self.compute_s, self.clock = gradients, compute_s, clock
        self.in_buckets = False

    def forward(self, x):
        count = len(self.layers)
        for k, layer in enumerate(self.layers):
            after = (count - k) / count  # share of backward until this layer's gradient is there
            due_s = self.compute_s * (FORWARD_SHARE + (1 - FORWARD_SHARE) * after)
            made = None if self.in_buckets else self.gradients[k]
            x = Layer.apply(x, layer.weight, layer.bias, made, self.clock, due_s)
        return x

    def put_into_buckets(self):
        """Writes the gradients of the next step to where DDP has those of the last one: views of
        its buckets."""
        self.in_buckets = True
        for layer, (weight, bias) in zip(self.layers, self.gradients):
            layer.weight.grad.copy_(weight)
            layer.bias.grad.copy_(bias)


class Contender:
    """A replica of the network with one of the hooks."""

    def __init__(self, name, gradients, bucket_mb, compute_s):
        torch.manual_seed(1)  # the same weights everywhere
        self.name, self.clock, self.seconds = name, Clock(), []
        self.model = DistributedDataParallel(
            Paced(gradients, compute_s, self.clock), bucket_cap_mb=bucket_mb or None,
            gradient_as_bucket_view=True)
        self.state = register(name, self.model)

    def step(self):
        if len(self.seconds) < WARM_STEPS:
            self.model.zero_grad()
        else:
            self.model.module.put_into_buckets()
        self.clock.begin = agreed_begin()
        self.model(torch.zeros(1, requires_grad=True)).sum().backward()
        self.seconds.append(time.perf_counter() - self.clock.begin)

    def check_average(self):
        """Ranks have the same, which is not what one of them had."""
        check_equal([each.grad for each in self.model.parameters()], f"averages of {self.name}")
        weight, gradient = self.model.module.layers[0].weight, self.model.module.gradients[0][0]
        assert not torch.equal(weight.grad, gradient), f"{self.name} has left gradients alone"

    def close(self):
        if self.state is not None:
            self.state.close()


def agreed_begin():
    """Waits for all ranks and returns a time, the same on all, at which they are here: hosts are
    namespaces of one machine, which has one clock."""
    begin = torch.tensor(time.perf_counter() + START_S, dtype=torch.float64)
    dist.all_reduce(begin, op=dist.ReduceOp.MAX)
    time.sleep(max(0.0, begin.item() - time.perf_counter()))
    return begin.item()


def main():
    width, layer_count, bucket_mb = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    compute_s, step_count = float(sys.argv[4]) * 1e-3, int(sys.argv[5])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    gradients = made_gradients([PIXELS, *[width] * layer_count, CLASSES])
    contenders = [Contender(name, gradients, bucket_mb, compute_s) for name in sys.argv[6:]]
    for _ in range(WARM_STEPS + step_count):
        for contender in contenders:
            contender.step()
    found = {"values": sum(each.numel() for pair in gradients for each in pair), "hooks": {}}
    for contender in contenders:
        if contender.name != ALONE:
            contender.check_average()
        seconds = torch.tensor(contender.seconds[WARM_STEPS:], dtype=torch.float64)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        found["hooks"][contender.name] = {"seconds": seconds.tolist()}
        contender.close()
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
