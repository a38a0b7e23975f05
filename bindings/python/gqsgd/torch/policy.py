"""Which quantizer each parameter gets: the default rule, and the assignment by any rule."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch.nn.parallel import DistributedDataParallel

from gqsgd import InvalidArgument, Quantizer

from .parameters import ParameterMap

#: (name, parameter, module that owns it) -> a quantizer, or its specification; "none" is float32.
#: Without a model names are "" and modules None.
Policy = Callable[[str, torch.Tensor, "torch.nn.Module | None"], "Quantizer | str"]

#: Below this many values a parameter costs more accuracy than it saves bytes.
SMALL_VALUE_COUNT = 1024

EMBEDDINGS = (torch.nn.Embedding, torch.nn.EmbeddingBag)


class DefaultPolicy:
    """Biases, the vectors of norm layers and small parameters go as they are; embeddings get
    blocks-8 where `quantizer` would turn zeros into noise; all else gets `quantizer`."""

    def __init__(self, quantizer: Quantizer):
        self.quantizer = quantizer

    def __call__(
        self, name: str, parameter: torch.Tensor, module: torch.nn.Module | None
    ) -> Quantizer | str:
        if parameter.ndim < 2 or parameter.numel() < SMALL_VALUE_COUNT:
            return "none"  # floats pass NaN through; nonfinite=error needs a norm
        if isinstance(module, EMBEDDINGS) and not keeps_zeros(self.quantizer):
            fields = fields_of(self.quantizer)
            return f"blocks-8,nonfinite={fields['nonfinite']},seed={fields['seed']}"
        return self.quantizer


class Assignment:
    """The quantizer of each parameter, made once by a policy."""

    def __init__(self, policy: Policy):
        self._policy = policy
        self._quantizers: dict[str, Quantizer] = {}  # by specification: equal ones are one call
        self._owners = ParameterMap()  # (name, module) of the model's
        self._chosen = ParameterMap()  # quantizers of those chosen for so far
        self._bound = False

    def bind(self, model: torch.nn.Module) -> None:
        """Takes names and modules from `model`. Of a shared parameter's modules the first counts,
        but an embedding before all others."""
        self._chosen, self._owners = ParameterMap(), ParameterMap()
        self._bound = True
        wrapper = "module." if isinstance(model, DistributedDataParallel) else ""
        for path, module in model.named_modules():
            for own_name, parameter in module.named_parameters(recurse=False):
                name = f"{path}.{own_name}" if path else own_name
                if parameter not in self._owners or isinstance(module, EMBEDDINGS):
                    self._owners[parameter] = name.removeprefix(wrapper), module

    def name_of(self, parameter: torch.Tensor) -> str:
        """As the model has it; "" without a model."""
        name: str = self._owners.get(parameter, ("", None))[0]
        return name

    def quantizer_of(self, parameter: torch.Tensor) -> Quantizer:
        """Of a parameter of the model. Raises InvalidArgument if that was named and has none such:
        an embedding would go unrecognised."""
        if parameter not in self._chosen:
            if self._bound and parameter not in self._owners:
                raise InvalidArgument(
                    f"model=... has no parameter of shape {tuple(parameter.shape)} that this "
                    "gradient is of; hint: give the module that DistributedDataParallel wraps"
                )
            name, module = self._owners.get(parameter, ("", None))
            choice = self._policy(name, parameter, module)
            if isinstance(choice, str):
                choice = Quantizer(choice)
            if not isinstance(choice, Quantizer):
                raise InvalidArgument(
                    f"the policy returned a {type(choice).__name__} for parameter {name!r} of "
                    f"shape {tuple(parameter.shape)}; a gqsgd.Quantizer or its spec is needed"
                )
            self._chosen[parameter] = self._quantizers.setdefault(choice.spec, choice)
        return self._chosen[parameter]


def require_saved(saved: str, quantizer: Quantizer, holder: str, maker: str) -> None:
    """Raises InvalidArgument where a checkpoint has the specification of another quantizer than
    `holder`, which `maker` makes."""
    if saved != quantizer.spec:
        raise InvalidArgument(
            f"the checkpoint was written with the quantizer {saved!r}, {holder} has "
            f"{quantizer.spec!r}; hint: {maker}(checkpoint['quantizer'], ...)"
        )


def as_quantizer(quantizer: Any) -> Quantizer:
    """A quantizer as the caller gave it, or by its specification."""
    if isinstance(quantizer, str):
        return Quantizer(quantizer)
    if isinstance(quantizer, Quantizer):
        return quantizer
    raise TypeError(
        f"quantizer is a {type(quantizer).__name__}, not a Quantizer or the name of one; hint: "
        '"blocks-8" for example; gqsgd.PRESETS has the names'
    )


def keeps_zeros(quantizer: Quantizer) -> bool:
    """True where values that are zero on all ranks stay exactly zero (docs/PRESETS.md)."""
    fields = fields_of(quantizer)
    roundings = fields["rounding"], fields["rounding_down"]
    return fields["rotate"] == "none" and "subtractive" not in roundings


def is_quantized(quantizer: Quantizer) -> bool:
    """False where values go as float32."""
    return fields_of(quantizer)["levels"] != "none"


def has_mean_bits(quantizer: Quantizer) -> bool:
    """True where codes have as many bits as values ask for, with a mean for each call: adaptive
    widths and Rice codes."""
    return "mean_bits" in fields_of(quantizer)


def fields_of(quantizer: Quantizer) -> Mapping[str, str]:
    """The fields of its specification, all of them."""
    return _fields(quantizer.spec)


@functools.lru_cache(maxsize=64)  # asked for in every call of a hook
def _fields(spec: str) -> Mapping[str, str]:
    return MappingProxyType(dict(field.partition("=")[::2] for field in spec.split(",")))
