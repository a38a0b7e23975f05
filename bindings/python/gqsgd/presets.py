"""The presets of quantizers, and the shortest specification of one."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from . import _abi
from .errors import InvalidArgument, Unsupported, check

#: Presets and what they are for; docs/PRESETS.md has their errors and bytes.
PRESETS: dict[str, str] = {
    "blocks-8": "8 bits, a norm for every 128 values: the default, fits every model",
    "rotated-8": "8 bits with less error on dense models; turns zeros into noise",
    "rotated-4-8": "6 bits on average, for slow networks and 16 ranks or more",
    "rotated-4": "4 bits, for the slowest networks: watch the loss",
    "adaptive-6": "6 bits on average, more where gradients are large; keeps zeros",
    "adaptive-5": "5 bits on average, less error than rotated-4-8 and fewer bytes",
    "adaptive-4": "4 bits on average, more where gradients are large: watch the loss",
    "adaptive-3": "3 bits on average: watch the loss",
    "rice-6": "6 bits on average, 1/3 to 1/21 of the error of adaptive-6",
    "rice-5": "5 bits on average, 1/3 to 1/16 of the error of adaptive-5",
    "rice-4": "4 bits on average, 1/3 to 1/17 of the error of adaptive-4",
    "rice-3": "3 bits on average, for the slowest networks: watch the loss",
    "relative-8": "8 bits, errors relative to each value",
    "paper-gl8": "linear levels of the paper, 8 bits, one norm for a call",
    "paper-ge8": "exponential levels of the paper, 8 bits",
    "paper-gl4": "linear levels of the paper, 4 bits",
    "paper-ge4": "exponential levels of the paper, 4 bits",
    "bf16": "16 bits: bfloat16 rounded at random, the range of float32; host memory",
    "fp16": "16 bits: float16 rounded at random, 1/64 of bf16's error, up to 65504; host memory",
    "none": "float32, to find out whether quantizing is to blame",
}


def full_spec(quantizer: int | None) -> str:
    """Of a quantizer's handle: the specification that names every field."""
    describe, size_bytes = _abi.library().gqsgd_quantizer_describe, ctypes.c_size_t()
    check(describe(quantizer, None, 0, ctypes.byref(size_bytes)))
    spec = ctypes.create_string_buffer(size_bytes.value)
    check(describe(quantizer, spec, len(spec), None))
    return spec.value.decode()


@lru_cache(maxsize=256)
def short_spec(spec: str) -> str:
    """Of the specifications preset,field=value,.. that mean the same as `spec`, which names every
    field, the one with the fewest fields."""
    choices = []
    for preset in PRESETS:
        own = _meaning(preset).split(",")
        parts = [preset, *(field for field in spec.split(",") if field not in own)]
        for field in parts[1:]:  # what follows from the others
            fewer = [part for part in parts if part != field]
            parts = fewer if _meaning(",".join(fewer)) == spec else parts
        if _meaning(",".join(parts)) == spec:
            choices.append(parts)
    return ",".join(min(choices, key=len)) if choices else spec


@lru_cache(maxsize=256)
def _meaning(spec: str) -> str:
    """The full specification; "" where fields do not go together."""
    library, handle = _abi.library(), ctypes.c_void_p()
    try:
        check(library.gqsgd_quantizer_create(spec.encode(), ctypes.byref(handle)))
        return full_spec(handle.value)
    except (InvalidArgument, Unsupported):
        return ""
    finally:
        library.gqsgd_quantizer_destroy(handle)
