"""The hooks of the table by name, each registered with a model under DDP."""

from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks import quantization_hooks

GQSGD = ("none", "blocks-8", "rotated-8", "rotated-4-8")
ALONE = "compute alone"  # no communication: every replica goes its own way
TRANSPORTS = ("process", "group")  # on one machine; "network" is for several: tools/netsteps


def names():
    """All rows of the table, in its order."""
    theirs = ["DDP", "fp16", "PowerSGD rank 1", "PowerSGD rank 4", "quantization per tensor",
              "quantization per channel"]  # that of bf16 is for CUDA alone
    return theirs + [f"{preset}, {transport}" for transport in TRANSPORTS for preset in GQSGD]


def waiting(hook):
    """`hook`, one bucket at a time. Its callbacks wait for collectives of their own on Gloo's two
    threads, and those of two buckets would wait for each other for ever."""

    def wait(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        done = torch.futures.Future()
        done.set_result(hook(state, bucket).wait())
        return done

    return wait


def stacked_all_gather(outputs, tensor, group, async_op):
    """all_gather with the future that torch's quantization hooks expect, whose first element has
    everything. Gloo's future is a list of tensors, which they take to pieces."""
    future = dist.all_gather(outputs, tensor, group=group, async_op=async_op).get_future()
    return SimpleNamespace(
        get_future=lambda: future.then(lambda done: done.wait() and [torch.stack(outputs)]))


def unchanged(_state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def register(name, model):
    """Gives `model` the hook of that row; returns the state that is to be closed, or None."""
    if name == "DDP":
        return None
    if name.startswith("PowerSGD"):
        rank = int(name.rpartition(" ")[2])
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=rank, start_powerSGD_iter=2)
        model.register_comm_hook(state, waiting(powerSGD_hook.powerSGD_hook))
        return None
    quantization_hooks.dist = SimpleNamespace(
        group=dist.group, get_rank=dist.get_rank, all_gather=stacked_all_gather)
    plain = {
        ALONE: unchanged,
        "fp16": default_hooks.fp16_compress_hook,
        "quantization per tensor": waiting(quantization_hooks.quantization_pertensor_hook),
        "quantization per channel": waiting(quantization_hooks.quantization_perchannel_hook),
    }
    if name in plain:
        model.register_comm_hook(None, plain[name])
        return None
    import gqsgd.torch

    preset, transport, *options = name.split(", ")
    options = dict(option.split("=", 1) for option in options)  # "none, network, costs=measure"
    state = gqsgd.torch.HookState(preset, model=model, transport=transport,
                                  gather_floats=model.gradient_as_bucket_view, **options)
    model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
    return state
