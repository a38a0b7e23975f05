"""Global-QSGD for PyTorch: a hook for DistributedDataParallel. Imported on demand, never by gqsgd.

    import gqsgd.torch

    state = gqsgd.torch.HookState("blocks-8")
    model.register_comm_hook(state, gqsgd.torch.allreduce_hook)

CPU tensors, and CUDA tensors over NCCL; ranks are those of a process group of torch.distributed.
docs/PYTORCH.md is the guide.
"""

from .fsdp import AllReduce, ReduceScatter
from .groups import connect
from .hook import HookState, allreduce_hook
from .operators import allreduce, allreduce_, allreduce_many
from .policy import DefaultPolicy

__all__ = [
    "AllReduce",
    "DefaultPolicy",
    "HookState",
    "ReduceScatter",
    "allreduce",
    "allreduce_",
    "allreduce_hook",
    "allreduce_many",
    "connect",
]
