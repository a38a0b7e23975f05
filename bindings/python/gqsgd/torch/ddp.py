"""Which process group a state is to work in, from the DistributedDataParallel that has it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gqsgd


def group_of_models(state: object) -> dist.ProcessGroup | None:
    """The group of the models that `state` is registered with; None if there is none. DDP tells
    hooks nothing of its group, and averages of others would be wrong without a word. It looks
    through all objects of the program, which takes up to a tenth of a second. Raises
    InvalidArgument where models of several groups share the state."""
    found = [model.process_group for model in _models_of(state)]
    if any(group is not found[0] for group in found):
        raise gqsgd.InvalidArgument(
            "models of several process groups have one HookState; hint: one for each group"
        )
    return found[0] if found else None


def require_same(given: dist.ProcessGroup, group: dist.ProcessGroup) -> None:
    """Raises InvalidArgument if a state was given a group of other ranks than its model's."""
    ranks = [dist.get_process_group_ranks(each) for each in (given, group)]
    if ranks[0] != ranks[1]:
        raise gqsgd.InvalidArgument(
            f"process_group has the ranks {ranks[0]}, and the model's DistributedDataParallel "
            f"{ranks[1]}; hint: HookState(process_group=None) takes the model's"
        )


def _models_of(state: object) -> Iterator[DistributedDataParallel]:
    for each in gc.get_objects():
        # Not isinstance(), which asks objects that may answer anything.
        if issubclass(type(each), DistributedDataParallel):
            hooks = getattr(each, "_comm_hooks", ())
            if any(own is state for _, own in hooks):
                yield each
