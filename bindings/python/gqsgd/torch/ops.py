"""The reductions that the library has, by torch's names for them."""

from typing import Any

import torch.distributed as dist

import gqsgd

_NAMES = {dist.ReduceOp.AVG: "mean", dist.ReduceOp.SUM: "sum"}


def find(op: Any) -> str | None:
    """The library's name of one of torch's reductions; None for what it has not."""
    return next((name for known, name in _NAMES.items() if op == known), None)


def name_of(op: str | dist.ReduceOp) -> str:
    """The library's name of `op`, which may be that already."""
    if op in ("mean", "sum"):
        return op
    name = find(op)
    if name is None:
        raise gqsgd.InvalidArgument(
            f"op is {op!r}; accepted are mean, sum, ReduceOp.AVG and ReduceOp.SUM"
        )
    return name
