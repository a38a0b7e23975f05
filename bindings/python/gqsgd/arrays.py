"""Views the caller's arrays as memory that the library can read and write, without a copy.

NumPy arrays, anything NumPy can view (buffers, CPU arrays with DLPack) and CPU tensors of torch,
which is never imported here: a caller with a tensor has imported it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from . import _abi
from .arguments import number_of
from .errors import InvalidArgument, Unsupported

# NumPy works a dtype's name out anew each time, which would be half the cost of a small call.
_NAMES = {np.dtype(name): name for name in ("float32", "float16", "float64")}


@dataclass(frozen=True)
class Buffer:
    """One contiguous array of values; it keeps alive what the library is given the address of."""

    owner: Any  #: what the caller gave, and gets back
    view: NDArray[Any]  #: the same memory; int16 in place of a tensor's bfloat16
    dtype: str  #: a key of _abi.DTYPES

    @property
    def address(self) -> int:
        address: int = self.view.__array_interface__["data"][0]
        return address

    @property
    def count(self) -> int:
        return self.view.size

    @property
    def shape(self) -> tuple[int, ...]:
        return self.view.shape

    @property
    def read_only(self) -> bool:
        return not self.view.flags.writeable

    @property
    def dtype_number(self) -> int:
        return _abi.DTYPES[self.dtype]

    def empty_like(self) -> Buffer:
        """New memory of the same kind, shape and dtype: a tensor for a tensor, else an array."""
        if _is_tensor(self.owner):
            torch = sys.modules["torch"]
            return read_view(
                torch.empty_like(self.owner.detach(), memory_format=torch.contiguous_format), "out"
            )
        new = np.empty(self.view.shape, self.view.dtype)
        return Buffer(new, new, self.dtype)

    def empty(self, count: int) -> Buffer:
        """New memory of the same kind and dtype, `count` values in one dimension."""
        if _is_tensor(self.owner):
            return read_view(self.owner.detach().new_empty((count,)), "out")
        new = np.empty(count, self.view.dtype)
        return Buffer(new, new, self.dtype)


def dtype_number(dtype: DTypeLike) -> int:
    """The ABI's number of a dtype, given as NumPy understands it or as "bfloat16"."""
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    return number_of("dtype", name, _abi.DTYPES)


def read_view(x: Any, role: str) -> Buffer:
    """`x` as values to read. `role` names it in errors."""
    view, dtype = _view_tensor(x, role) if _is_tensor(x) else _view_array(x, role)
    if dtype not in _abi.DTYPES:
        raise InvalidArgument(f"{role} holds {dtype}; accepted are {', '.join(_abi.DTYPES)}")
    require_plain(view, role)
    return Buffer(x, view, dtype)


def require_plain(view: NDArray[Any], role: str) -> None:
    """Refuses numbers of another machine, and gaps and other orders: random words are keyed by
    position in memory."""
    if not view.dtype.isnative:
        raise InvalidArgument(
            f"{role} is in the byte order of another machine ({view.dtype.str}); hint: "
            f"{role}.astype({view.dtype.name!r})"
        )
    if not view.flags.c_contiguous:
        copies = f"np.ascontiguousarray({role}) or a tensor's contiguous() copies it"
        takes = "np.empty(shape, dtype) takes the result, to be copied from there"
        raise InvalidArgument(
            f"{role} is not contiguous in C order: shape {view.shape}, strides {view.strides} "
            f"bytes; hint: {takes if role.startswith('out') else copies}"
        )


def _is_tensor(x: Any) -> bool:
    return isinstance(x, getattr(sys.modules.get("torch"), "Tensor", ()))


def _view_tensor(x: Any, role: str) -> tuple[NDArray[Any], str]:
    if x.device.type != "cpu":
        raise Unsupported(f"{role} is on {x.device}; only host memory is supported")
    torch, values = sys.modules["torch"], x.detach()
    try:
        if values.dtype == torch.bfloat16:  # NumPy has no such type; its bits travel as int16.
            return _shown(values.view(torch.int16)), "bfloat16"
        view = _shown(values)
    except (RuntimeError, TypeError) as error:  # sparse, of a subclass, of a type NumPy has not
        raise InvalidArgument(
            f"{role} is a {type(x).__name__} of {x.dtype} that shows no plain memory: {error}; "
            "hint: give a dense torch.Tensor, to_local() of a DTensor for example"
        ) from error
    return view, _name(view)


def _shown(values: Any) -> NDArray[Any]:
    """values.numpy(), which makes torch refuse for ever to resize that storage, as FSDP2 does to
    that of its parameters. So it is called on another storage, of the same memory."""
    torch = sys.modules["torch"]
    is_plain = type(values) is torch.Tensor and values.layout is torch.strided
    if not is_plain or values.is_nested or values.is_neg() or values.dtype not in _plain(torch):
        view: NDArray[Any] = values.numpy()  # or its refusal
        return view
    if values.numel() > 0 and values.data_ptr() == 0:
        raise RuntimeError("it has no memory")
    return torch.from_dlpack(torch.to_dlpack(values)).numpy()


@lru_cache(maxsize=1)
def _plain(torch: Any) -> frozenset[Any]:
    return frozenset((torch.float32, torch.float16, torch.float64, torch.int16))


def _view_array(x: Any, role: str) -> tuple[NDArray[Any], str]:
    if type(x) is np.ndarray:
        return x, _name(x)
    if isinstance(x, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())):
        raise InvalidArgument(
            f"{role} is a masked array, whose mask would be lost; hint: {role}.filled(0)"
        )
    if isinstance(x, np.ndarray) or hasattr(x, "__array_interface__"):
        view = np.asarray(x)
        if isinstance(x, np.generic):  # a copy: what is written there would be lost
            view.flags.writeable = False
    elif hasattr(x, "__dlpack__"):
        view = _view_dlpack(x, role)
    else:
        try:
            view = np.asarray(memoryview(x))
        except TypeError:
            raise TypeError(
                f"{role} is a {type(x).__name__}, which has no memory to share; hint: "
                f"np.asarray({role}, dtype=np.float32)"
            ) from None
    return view, _name(view)


def _name(view: NDArray[Any]) -> str:
    return _NAMES.get(view.dtype) or view.dtype.name


def _view_dlpack(x: Any, role: str) -> NDArray[Any]:
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        # NumPy's DLPack has no bfloat16, but a JAX array shows its own as a read-only array; a
        # writable one would be a copy, and a result written into it would be lost.
        view = np.asarray(x) if hasattr(x, "__array__") else None
        if view is None or view.dtype.name != "bfloat16" or view.flags.writeable:
            raise InvalidArgument(f"{role} cannot be viewed by NumPy: {error}") from error
        return view
