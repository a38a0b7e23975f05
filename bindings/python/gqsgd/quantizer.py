"""Quantizer: an immutable description of a number format and of how codes are combined."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _abi
from .arguments import integer, joined_fields
from .errors import check
from .presets import full_spec, short_spec


class Quantizer:
    """How values become codes: a preset, a specification, or fields by name.

        Quantizer()                           the default preset, blocks-8
        Quantizer(seed=7)                     the default, a field overridden
        Quantizer("paper-ge8", seed=7)        a preset, any field overridden
        Quantizer(levels="linear", bits=4, norm=("inf", "inf"), block=128)

    Fields that name `levels` and no preset change no preset: fields left out are plain (one norm,
    independent rounding). `gqsgd.PRESETS` has the presets, docs/PRESETS.md the fields.

    The library reads and checks the resulting specification: it raises InvalidArgument, with what
    is allowed, for unknown names and values.

    Two quantizers are equal when their full specifications are. Immutable; any number of threads
    may use one at once; pickles as its specification.
    """

    __slots__ = ("__weakref__", "_destroy", "_handle", "spec")

    spec: str  #: the full specification, every field named; it makes an equal quantizer
    _handle: int | None
    _destroy: Any

    def __init__(self, preset_or_spec: str = "", **fields: Any):
        if not isinstance(preset_or_spec, str):
            raise TypeError(
                f"preset_or_spec is {preset_or_spec!r}; a preset or a specification is "
                "needed, fields go by name; hint: gqsgd.Quantizer(q.spec, seed=7)"
            )
        library, handle = _abi.library(), ctypes.c_void_p()
        check(
            library.gqsgd_quantizer_create(
                joined_fields(preset_or_spec, fields), ctypes.byref(handle)
            )
        )
        set_once = super().__setattr__
        set_once("_destroy", library.gqsgd_quantizer_destroy)
        set_once("_handle", handle.value)
        set_once("spec", full_spec(handle.value))

    def packed_size(self, value_count: int) -> int:
        """Size in bytes of `value_count` packed values: whole 32-bit words. rotate="hadamard" fills
        values up to a multiple of 128. With width="adaptive" and levels="rice" enough for any
        number of ranks; `rice_groups` has what a call takes."""
        return self._size(_abi.library().gqsgd_packed_size, value_count)

    def result_size(self, value_count: int) -> int:
        """The same for what reduce_many returns, whose codes have bits_down bits."""
        return self._size(_abi.library().gqsgd_result_size, value_count)

    def norm_count(self, value_count: int) -> int:
        """How many norms `value_count` values have: one for each block, or one."""
        return self._size(_abi.library().gqsgd_norm_count, value_count)

    def _size(self, function: Any, value_count: int) -> int:
        result = ctypes.c_size_t()
        value_count = integer("value_count", value_count, ctypes.c_size_t)
        check(function(self._handle, value_count, ctypes.byref(result)))
        return result.value

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a quantizer is immutable; make another one with {name}={value!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a quantizer is immutable")

    def __str__(self) -> str:
        return self.spec

    def __repr__(self) -> str:
        """The shortest call that makes an equal one, `Quantizer('blocks-8,seed=7')` for example."""
        return f"Quantizer({short_spec(self.spec)!r})"

    def __eq__(self, other: object) -> bool:
        return self.spec == other.spec if isinstance(other, Quantizer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Quantizer, (self.spec,))

    def __del__(self) -> None:
        # The function is kept on the object: at interpreter exit modules may be gone already.
        if getattr(self, "_handle", None):
            self._destroy(self._handle)


def handle_of(q: Quantizer) -> int | None:
    """The library's token of a quantizer; TypeError for anything else."""
    if not isinstance(q, Quantizer):
        raise TypeError(f"q is a {type(q).__name__}; hint: gqsgd.Quantizer({q!r})")
    return q._handle
