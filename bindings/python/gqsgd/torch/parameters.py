"""What is known of the parameters of a model, by identity."""

from __future__ import annotations

import weakref
from typing import Any

import torch


class ParameterMap:
    """Something for each parameter, which it does not keep alive. torch's WeakTensorKeyDictionary
    has iteration and removal as well, and lookups that take 20 us."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[torch.Tensor], Any]] = {}

    def __setitem__(self, parameter: torch.Tensor, value: Any) -> None:
        self._entries[id(parameter)] = weakref.ref(parameter), value

    def __contains__(self, parameter: torch.Tensor) -> bool:
        entry = self._entries.get(id(parameter))
        return entry is not None and entry[0]() is parameter

    def __getitem__(self, parameter: torch.Tensor) -> Any:
        if parameter not in self:
            raise KeyError(f"nothing is known of a parameter of shape {tuple(parameter.shape)}")
        return self._entries[id(parameter)][1]

    def get(self, parameter: torch.Tensor, default: Any) -> Any:
        return self._entries[id(parameter)][1] if parameter in self else default
