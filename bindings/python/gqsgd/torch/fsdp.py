"""ReduceScatter: gradients of fully_shard (FSDP2) in codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

import gqsgd
from gqsgd.presets import short_spec

from . import devices, groups

_OPS = {dist.ReduceOp.AVG: "mean", dist.ReduceOp.SUM: "sum"}


class ReduceScatter:
    """What FSDP2 calls to add up gradients of which each rank keeps a slice.

        reduce_scatter = gqsgd.torch.ReduceScatter("blocks-8").attach(model)

    quantizer: a gqsgd.Quantizer or its specification. Values are rounded once and added as float32.
    transport, options: as for HookState.

    FSDP2 hands over slices in which parameters follow each other without their names, so that
    there is no policy: wrap apart what should stay as it is, and attach to the other modules. Norms
    and rotations go across the borders of parameters that are wrapped together: wrap layers one by
    one, so that small gradients do not take the error of large ones beside them. The communicator
    is made by the first backward, all ranks of the group together.
    """

    def __init__(
        self, quantizer: gqsgd.Quantizer | str = "", *, transport: str = "auto", **options: Any
    ):
        if isinstance(quantizer, str):
            quantizer = gqsgd.Quantizer(quantizer)
        groups.check_connection(transport, options)
        self.quantizer = quantizer
        self.call_count = 0  #: so far: the step of the next call's random key
        self._connection = {"transport": transport, **options}
        self._communicators: dict[
            tuple[dist.ProcessGroup, torch.device], gqsgd.Communicator
        ] = {}

    def __repr__(self) -> str:
        return f"<ReduceScatter {short_spec(self.quantizer.spec)}, call {self.call_count}>"

    def attach(self, model: torch.nn.Module) -> ReduceScatter:
        """Makes every module of `model` that fully_shard has wrapped use this object; returns
        it."""
        from torch.distributed.fsdp import FSDPModule  # a second and more, which DDP does not need

        wrapped = [module for module in model.modules() if isinstance(module, FSDPModule)]
        if not wrapped:
            raise gqsgd.InvalidArgument("no module of the model is wrapped; hint: fully_shard it")
        for module in wrapped:
            module.set_custom_reduce_scatter(self)
        return self

    def allocate(
        self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        """Memory for FSDP2's input or output."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> None:
        devices.require_reachable(input_tensor, "the gradients of FSDP2")
        if op not in _OPS or async_op:
            raise gqsgd.Unsupported(
                f"op is {op}, async_op is {async_op}; a reduce-scatter in codes adds or averages, "
                "and returns when it has; hint: no set_gradient_divide_factor"
            )
        place = group, input_tensor.device
        if place not in self._communicators:
            self._communicators[place] = groups.connect(
                group, device=place[1], **self._connection)
        comm = self._communicators[place]
        comm.reduce_scatter(
            input_tensor,
            self.quantizer,
            [output_tensor.numel()] * comm.size,
            _OPS[op],
            output_tensor,
            step=self.call_count,
            stream=devices.current_stream(input_tensor),
        )
        self.call_count += 1

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs for the same bits after it."""
        return {"quantizer": self.quantizer.spec, "call_count": self.call_count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from where `state_dict` was called."""
        self.quantizer = gqsgd.Quantizer(state["quantizer"])
        self.call_count = state["call_count"]

    def close(self) -> None:
        """Frees the communicators; the next backward makes new ones."""
        while self._communicators:
            self._communicators.popitem()[1].close()
