"""Allreduce of a tensor as operators of torch.library, for eager code and torch.compile alike."""
# Annotations here stay classes: torch.library makes schemas of them.

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist

import gqsgd

from . import devices, groups, ops
from .policy import as_quantizer

# Two calls with equal arguments have different random numbers: neither may stand for both.
_TAGS = (torch.Tag.nondeterministic_seeded,)
_DEFAULT_GROUP = ""


def allreduce(
    x: torch.Tensor,
    quantizer: gqsgd.Quantizer | str = "",
    group: dist.ProcessGroup | None = None,
    op: str | dist.ReduceOp = "mean",
) -> torch.Tensor:
    """The mean, or "sum", of `x` over the ranks of `group`, as a new tensor; all get the same bits.

    x: float32, float16, bfloat16 or float64 of any shape, on the CPU or a GPU, where the call is
        enqueued on torch's current stream; shape and type are equal on all ranks.
    quantizer: a gqsgd.Quantizer or its specification. group: None is the default group. op: "mean"
        or "sum", or ReduceOp.AVG or SUM.

    Every rank calls in the same order. The first call for a group makes the communicator that all
    calls for it on one device share, with transport "auto". Under torch.compile this is one
    operator of the graph, `gqsgd::allreduce`. In a CUDA graph each replay takes the communicator's
    next step; make one such call outside of it before. Differentiable: the gradient is reduced in
    the same way.
    """
    return torch.ops.gqsgd.allreduce(x, _spec(quantizer), _name(group), ops.name_of(op))


def allreduce_(
    x: torch.Tensor,
    quantizer: gqsgd.Quantizer | str = "",
    group: dist.ProcessGroup | None = None,
    op: str | dist.ReduceOp = "mean",
) -> torch.Tensor:
    """`allreduce` in place, of a contiguous tensor; returns `x`. Not differentiable: a tensor that
    requires a gradient is refused, unless under torch.no_grad()."""
    if x.requires_grad and torch.is_grad_enabled():
        raise gqsgd.InvalidArgument(
            "x requires a gradient, which would not see that allreduce_ has changed it; hint: "
            "allreduce(x), or allreduce_(x) under torch.no_grad()"
        )
    torch.ops.gqsgd.allreduce_(x, _spec(quantizer), _name(group), ops.name_of(op))
    return x


def allreduce_many(
    tensors: Iterable[torch.Tensor],
    quantizer: gqsgd.Quantizer | str = "",
    group: dist.ProcessGroup | None = None,
    op: str | dist.ReduceOp = "mean",
) -> list[torch.Tensor]:
    """`allreduce` of tensors of one dtype as one call, without a flat copy; each has norms of its
    own (docs/PRESETS.md, Several tensors). Not differentiable: tensors that require a gradient are
    refused, unless under torch.no_grad()."""
    tensors = list(tensors)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise gqsgd.InvalidArgument(
            "a tensor requires a gradient, which allreduce_many does not pass on; hint: allreduce "
            "of each, or torch.no_grad()"
        )
    found = torch.ops.gqsgd.allreduce_many(
        tensors, _spec(quantizer), _name(group), ops.name_of(op))
    return list(found)


def _spec(quantizer: gqsgd.Quantizer | str) -> str:
    return quantizer if isinstance(quantizer, str) else as_quantizer(quantizer).spec


def _name(group: dist.ProcessGroup | None) -> str:
    if group is None:
        return _DEFAULT_GROUP
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(
            f"group is a {type(group).__name__}, not a ProcessGroup; hint: "
            "torch.distributed.new_group() makes one, on its members"
        )
    return group.group_name


@torch.library.custom_op("gqsgd::allreduce", mutates_args=(), tags=_TAGS)
def _allreduce(x: torch.Tensor, quantizer: str, group_name: str, op: str) -> torch.Tensor:
    comm, stream = _communicator(x, group_name), devices.current_stream(x)
    return comm.allreduce(x.contiguous(), _quantizer(quantizer), op, stream=stream)


@_allreduce.register_fake
def _(x: torch.Tensor, quantizer: str, group_name: str, op: str) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.custom_op("gqsgd::allreduce_", mutates_args=("x",), tags=_TAGS)
def _allreduce_in_place(x: torch.Tensor, quantizer: str, group_name: str, op: str) -> None:
    comm, stream = _communicator(x, group_name), devices.current_stream(x)
    comm.allreduce(x, _quantizer(quantizer), op, out=x, stream=stream)


@torch.library.custom_op("gqsgd::allreduce_many", mutates_args=(), tags=_TAGS)
def _allreduce_many(
    tensors: Sequence[torch.Tensor], quantizer: str, group_name: str, op: str
) -> list[torch.Tensor]:
    if not tensors:
        return []
    comm, stream = _communicator(tensors[0], group_name), devices.current_stream(tensors[0])
    arrays = [tensor.contiguous() for tensor in tensors]
    return comm.allreduce_many(arrays, _quantizer(quantizer), op, stream=stream)


@_allreduce_many.register_fake
def _(
    tensors: Sequence[torch.Tensor], quantizer: str, group_name: str, op: str
) -> list[torch.Tensor]:
    return [torch.empty_like(each, memory_format=torch.contiguous_format) for each in tensors]


def _save_arguments(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.arguments = inputs[1:]


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    return torch.ops.gqsgd.allreduce(gradient, *ctx.arguments), None, None, None


_allreduce.register_autograd(_backward, setup_context=_save_arguments)


# A call whose result is unused still runs under torch.compile: other ranks wait for it, or would
# take this rank's next call for it.
for _operator in (torch.ops.gqsgd.allreduce, torch.ops.gqsgd.allreduce_,
                  torch.ops.gqsgd.allreduce_many):
    torch.fx.node.has_side_effect(_operator.default)


def _communicator(x: torch.Tensor, group_name: str) -> gqsgd.Communicator:
    devices.require_reachable(x, "x")
    if group_name == _DEFAULT_GROUP:
        return groups.shared(None, x.device)
    return groups.shared(dist.distributed_c10d._resolve_process_group(group_name), x.device)


@lru_cache(maxsize=64)
def _quantizer(spec: str) -> gqsgd.Quantizer:
    return gqsgd.Quantizer(spec)
