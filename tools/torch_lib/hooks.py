"""The hooks of the table by name, each registered with a model under DDP."""

from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks import quantization_hooks

GQSGD = ("none", "blocks-8", "rotated-8", "rotated-4-8")
TRANSPORTS = ("process", "group")


def names():
    """All rows of the table, in its order."""
    theirs = ["DDP", "fp16", "bf16", "PowerSGD rank 1", "PowerSGD rank 4",
              "quantization per tensor", "quantization per channel"]
    return theirs + [f"{preset}, {transport}" for transport in TRANSPORTS for preset in GQSGD]


def register(name, model):
    """Gives `model` the hook of that row; returns the state that is to be closed, or None."""
    if name == "DDP":
        return None
    if name.startswith("PowerSGD"):
        rank = int(name.rpartition(" ")[2])
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=rank, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        return None
    plain = {
        "fp16": default_hooks.fp16_compress_hook,
        "bf16": default_hooks.bf16_compress_hook,
        "quantization per tensor": quantization_hooks.quantization_pertensor_hook,
        "quantization per channel": quantization_hooks.quantization_perchannel_hook,
    }
    if name in plain:
        model.register_comm_hook(None, plain[name])
        return None
    import gqsgd.torch

    preset, _, transport = name.partition(", ")
    state = gqsgd.torch.HookState(preset, model=model, transport=transport)
    model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
    return state
