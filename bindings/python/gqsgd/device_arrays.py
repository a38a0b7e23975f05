"""Views arrays in a device's memory, and streams, without importing what they belong to.

Arrays: CUDA tensors of torch, whatever has __cuda_array_interface__ (CuPy, Numba) and, without a
copy, __dlpack__ with a CUDA device (JAX). Streams: numbers as DLPack has them (1 the legacy default
stream, 2 the thread's), objects with __cuda_stream__, torch's and CuPy's.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _abi
from .arguments import integer
from .errors import InvalidArgument, Unsupported

LEGACY_STREAM = 1
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged
_DLPACK_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}


@dataclass(frozen=True)
class DeviceView:
    """One contiguous array on a device; it keeps alive what the library is given the address of."""

    owner: Any  #: what the caller gave, and gets back
    address: int
    shape: tuple[int, ...]
    dtype: str
    read_only: bool = False
    keep: Any = None

    @property
    def count(self) -> int:
        return _product(self.shape)

    @property
    def dtype_number(self) -> int:
        return _abi.DTYPES[self.dtype]

    def empty_like(self) -> DeviceView:
        """New memory of the same package, shape and dtype."""
        return device_view(empty(self.owner, self.shape, self.dtype), "the result")

    def empty(self, count: int) -> DeviceView:
        """New memory of the same package and dtype, `count` values in one dimension."""
        return device_view(empty(self.owner, count, self.dtype), "the result")


def is_on_device(x: Any) -> bool:
    """Whether `x` shows memory of a CUDA device."""
    if _is_tensor(x):
        return bool(x.device.type == "cuda")
    if isinstance(x, np.ndarray):
        return False
    if hasattr(x, "__cuda_array_interface__"):
        return True
    if not hasattr(x, "__dlpack_device__"):
        return False
    try:
        return int(x.__dlpack_device__()[0]) in _DLPACK_CUDA
    except (BufferError, RuntimeError, ValueError) as error:  # an array of JAX over many devices
        raise InvalidArgument(
            f"an array of the call, a {type(x).__name__}, lies on no one device: {error}; hint: "
            "give the part of one device, or inside JAX's programs use gqsgd.jax"
        ) from error


def device_view(x: Any, role: str, stream: int | None = None) -> DeviceView:
    """`x` as memory of a device; with DLPack its owner gets the stream that uses it next."""
    if not is_on_device(x):
        raise InvalidArgument(
            f"{role} is a {type(x).__name__} in host memory; all arrays of a call are on the device"
        )
    if _is_tensor(x):
        return _view_tensor(x, role)
    if hasattr(x, "__cuda_array_interface__"):
        return _view_interface(x, role)
    return _view_dlpack(x, role, LEGACY_STREAM if stream is None else stream)


def empty(like: Any, shape: int | tuple[int, ...], dtype: str) -> Any:
    """New memory beside `like`, from the package that it comes from."""
    if _is_tensor(like):
        return like.detach().new_empty(shape, dtype=getattr(sys.modules["torch"], dtype))
    module = sys.modules.get(type(like).__module__.partition(".")[0])
    make = getattr(module, "empty", None)
    if make is None or not hasattr(like, "__cuda_array_interface__"):
        raise Unsupported(
            f"{type(like).__module__} makes no arrays to write results into; hint: CuPy or torch "
            "views the same memory by DLPack"
        )
    return make(shape, dtype)


def stream_number(stream: Any, x: Any = None) -> int:
    """A stream as the library takes it; None is the one that the package of `x` works on now."""
    if stream is None:
        stream = _current_stream(x)
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1]) or LEGACY_STREAM
    for attribute in ("cuda_stream", "ptr"):  # torch's, CuPy's
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute)) or LEGACY_STREAM
    number = integer("stream", stream, ctypes.c_size_t)
    if number == 0:
        raise InvalidArgument(
            "stream is 0, which could be either default stream; give 1 for the legacy one, 2 for "
            "that of the thread"
        )
    return number


def _current_stream(x: Any) -> Any:
    if _is_tensor(x):
        return sys.modules["torch"].cuda.current_stream(x.device)
    module = type(x).__module__.partition(".")[0]
    if module == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream()
    interface = getattr(x, "__cuda_array_interface__", {})
    return interface.get("stream") or LEGACY_STREAM


def _is_tensor(x: Any) -> bool:
    return isinstance(x, getattr(sys.modules.get("torch"), "Tensor", ()))


def _view_tensor(x: Any, role: str) -> DeviceView:
    if not x.is_contiguous():
        raise _gaps(role, tuple(x.shape), tuple(x.stride()))
    if x.is_neg():  # the imaginary part of a conjugate, whose memory has the other sign
        raise InvalidArgument(f"{role} is negated when it is read; hint: {role}.resolve_neg()")
    dtype = str(x.dtype).removeprefix("torch.")
    return DeviceView(x, int(x.data_ptr()), tuple(x.shape), dtype)


def _view_interface(x: Any, role: str) -> DeviceView:
    fields = x.__cuda_array_interface__
    shape, name = tuple(fields["shape"]), fields["typestr"]
    # NumPy has no bfloat16: those that have one show two bytes without a meaning.
    dtype = "bfloat16" if name in ("<V2", "|V2") else np.dtype(name).name
    strides = fields.get("strides")
    if strides is not None and tuple(strides) != _packed(shape, np.dtype(name).itemsize):
        raise _gaps(role, shape, tuple(strides))
    address, read_only = fields["data"]
    return DeviceView(x, int(address or 0), shape, dtype, bool(read_only))


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def _view_dlpack(x: Any, role: str, stream: int) -> DeviceView:
    """The capsule is not consumed: it gives its tensor back when it is forgotten."""
    capsule = x.__dlpack__(stream=stream)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim))
        if strides != _packed(shape, 1):
            raise _gaps(role, shape, strides)
    kind = _DLPACK_KINDS.get(tensor.code, f"code{tensor.code}_")
    dtype = f"{kind}{tensor.bits}" + (f"x{tensor.lanes}" if tensor.lanes != 1 else "")
    address = (tensor.data or 0) + tensor.byte_offset
    return DeviceView(x, address, shape, dtype, read_only=True, keep=capsule)


def _packed(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides of an array without gaps."""
    return tuple(itemsize * _product(shape[axis + 1 :]) for axis in range(len(shape)))


def _product(shape: tuple[int, ...]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count


def _gaps(role: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> InvalidArgument:
    return InvalidArgument(
        f"{role} is not contiguous in C order: shape {shape}, strides {strides}; random words are "
        "keyed by position in memory"
    )
