"""What a hook has to find out of DistributedDataParallel: its process group, and which bucket is
the first of a backward pass and which the last.

Buckets are numbered, but not in the first pass with static_graph=True. That one reduces when
backward is over, and each of its buckets says that it is the first and not the last, unless there
is one alone. A new model has a bucket for each type of its parameters. And with
skip_all_reduce_unused_params=True buckets are left out, also the first or the last.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import NamedTuple

import torch
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


def require_connected(given: dist.ProcessGroup | None, group: dist.ProcessGroup) -> None:
    """Raises InvalidArgument where a communicator was made before a model of other ranks."""
    connected, ranks = [dist.get_process_group_ranks(each) for each in (given, group)]
    if ranks != connected:
        raise gqsgd.InvalidArgument(
            f"the communicator of this state has the ranks {connected}, and the model's "
            f"DistributedDataParallel {ranks}; hint: connect() after register_comm_hook, or "
            "HookState(process_group=...)"
        )


class Place(NamedTuple):
    """Where a bucket is in its backward pass."""

    is_first: bool
    is_last: bool


class Passes:
    """Follows the buckets of one model, backward after backward."""

    def __init__(self) -> None:
        self._next = 0  # the least number of a bucket that goes on with the pass under way
        self._seen: set[int] = set()  # parameters of that pass, while all are "first"

    def place(self, bucket: dist.GradBucket) -> Place:
        """Of the bucket that has come now."""
        index, is_last = bucket.index(), bucket.is_last()
        is_first = self._next == 0 or index < self._next
        self._next = 0 if is_last else index + 1
        seen, self._seen = self._seen, set()
        if index != 0 or is_last:
            return Place(is_first, is_last)
        parameters = bucket.parameters()
        own = set(map(id, parameters))
        count = _static_parameter_count(parameters[0]) if seen and not seen & own else None
        if count is None:
            self._seen = own
            return Place(True, False)
        is_last = len(seen | own) == count
        self._seen = set() if is_last else seen | own
        return Place(False, is_last)


def skips_buckets(state: object) -> bool:
    """Whether a model that `state` is registered with leaves out buckets of unused parameters."""
    return any(getattr(model, "skip_all_reduce_unused_params", False)
               for model in _models_of(state))


def _static_parameter_count(parameter: torch.Tensor) -> int | None:
    """How many parameters are in buckets of the model with static_graph=True that has `parameter`;
    None if there is no such model."""
    for model in _models():
        if model.static_graph and any(each is parameter for each in model.parameters()):
            return sum(each.requires_grad and name not in model.parameters_to_ignore
                       for name, each in model.module.named_parameters())
    return None


def _models_of(state: object) -> Iterator[DistributedDataParallel]:
    for model in _models():
        if any(own is state for _, own in getattr(model, "_comm_hooks", ())):
            yield model


def _models() -> list[DistributedDataParallel]:
    # Not isinstance(), which asks objects that may answer anything.
    return [each for each in _objects() if issubclass(type(each), DistributedDataParallel)]


def _objects() -> list[object]:
    """All that the collector knows. It lists none that gc.freeze() has hidden, as programs hide
    their model: these are shown for a moment, and what was made since is hidden with them."""
    if gc.get_freeze_count() == 0:
        return gc.get_objects()
    gc.unfreeze()
    try:
        return gc.get_objects()
    finally:
        gc.freeze()
