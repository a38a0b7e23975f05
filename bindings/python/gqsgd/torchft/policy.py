"""Which tensors of a process group are compressed."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gqsgd import Quantizer
from gqsgd.torch.policy import SMALL_VALUE_COUNT, as_quantizer

#: A tensor of an allreduce -> a quantizer, its specification, or None: exact, by the wrapped group.
#: Decides by what is equal on all replicas: shape, dtype, device.
Policy = Callable[[torch.Tensor], "Quantizer | str | None"]

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


class LargeFloats:
    """`quantizer` for tensors of floats in host memory with `least` values or more; others, such as
    integers, flags and single losses, are reduced exactly."""

    def __init__(self, quantizer: Quantizer | str = "", least: int = SMALL_VALUE_COUNT):
        self.quantizer = as_quantizer(quantizer)
        self.least = least

    def __call__(self, tensor: torch.Tensor) -> Quantizer | None:
        return self.quantizer if tensor.numel() >= self.least else None

    def __repr__(self) -> str:
        return f"tensors of {self.least} floats or more as {self.quantizer.spec}"
