"""Memory: where the arrays of a call lie, host or device, and how they are viewed and made there.

Arrays of a device come with a stream, on which the call is enqueued and never waited for. New ones
come from the package of the first array, whose allocator has to know of the stream: use its current
one, or keep what a call was given until the stream is done with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from . import _abi, arrays, device_arrays
from .arrays import Buffer
from .device_arrays import DeviceView
from .errors import InvalidArgument

_VALUES = tuple(_abi.DTYPES)

View = Any  #: a Buffer in HostMemory, a DeviceView in DeviceMemory


class Memory(ABC):
    """The library sees only addresses: types and lengths can be checked nowhere else."""

    stream: int | None  #: as the library takes it
    word_types: tuple[str, ...]  #: of arrays that hold codes

    def values(self, x: Any, role: str, count: int | None = None, write: bool = False) -> View:
        """`x` as `count` values to read, or to write. `role` names it in errors."""
        return _checked(self._view_values(x, role), role, _VALUES, count, write)

    def words(self, x: Any, role: str, count: int | None = None, write: bool = False) -> View:
        """`x` as `count` words of codes."""
        return _checked(self._view_array(x, role), role, self.word_types, count, write)

    def norms(self, x: Any, role: str, count: int) -> View:
        """`x` as `count` norms or scales."""
        return _checked(self._view_array(x, role), role, ("float32",), count, False)

    def result(self, out: Any, like: View, role: str = "out", other: str = "x") -> View:
        """`out` as values to write, of the shape and dtype of `like`; new memory for None. Errors
        have `role` and `other` as their names."""
        if out is None:
            return like.empty_like()
        if out is like.owner:
            return _checked(like, role, _VALUES, None, write=True)
        view = self.values(out, role, write=True)
        if (view.dtype, view.shape) != (like.dtype, like.shape):
            raise InvalidArgument(
                f"{role} is {view.dtype} of shape {view.shape}, {other} is {like.dtype} of shape "
                f"{like.shape}; hint: np.empty_like({other})"
            )
        return view

    def slice(self, out: Any, like: View, count: int) -> View:
        """`out` as `count` values to write, of any shape and the dtype of `like`; new memory for
        None."""
        if out is None:
            return like.empty(count)
        view = self.values(out, "out", write=True)
        if (view.dtype, view.count) != (like.dtype, count):
            raise InvalidArgument(
                f"out has {view.count} values of {view.dtype}; {count} of {like.dtype} are needed"
            )
        return view

    @abstractmethod
    def new(self, like: Any, count: int, dtype: DTypeLike) -> View:
        """A new array beside `like`."""

    @abstractmethod
    def copied(self, words: View, out: Any, other: View) -> View:
        """`out`, or new memory, with a copy of `words`, which `other` is not changed by."""

    @abstractmethod
    def _view_values(self, x: Any, role: str) -> View: ...

    @abstractmethod
    def _view_array(self, x: Any, role: str) -> View: ...


class HostMemory(Memory):
    """Values are NumPy arrays, what NumPy views without a copy, and CPU tensors; codes and norms
    are NumPy arrays."""

    stream = None
    word_types = ("uint32",)

    def new(self, like: Any, count: int, dtype: DTypeLike) -> Buffer:
        made = np.empty(count, dtype)
        return Buffer(made, made, made.dtype.name)

    def copied(self, words: Buffer, out: Any, other: Buffer) -> Buffer:
        copy = self.words(np.empty_like(words.view) if out is None else out, "out", words.count,
                          write=True)
        if np.may_share_memory(copy.view, other.view):  # exact: neither has gaps
            raise InvalidArgument("out overlaps a, which would be lost; hint: out=b, or no out")
        np.copyto(copy.view, words.view)
        return copy

    def _view_values(self, x: Any, role: str) -> Buffer:
        return arrays.read_view(x, role)

    def _view_array(self, x: Any, role: str) -> Buffer:
        if not isinstance(x, np.ndarray):
            raise InvalidArgument(f"{role} is a {type(x).__name__}; a NumPy array is needed")
        arrays.require_plain(x, role)
        return Buffer(x, x, x.dtype.name)


class DeviceMemory(Memory):
    """Arrays of a CUDA device; all those of a call are there."""

    word_types = ("uint32", "int32")

    def __init__(self, stream: int):
        self.stream = stream

    def new(self, like: Any, count: int, dtype: DTypeLike) -> DeviceView:
        name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
        return self._view_array(device_arrays.empty(like, count, name), "the result")

    def copied(self, words: DeviceView, out: Any, other: DeviceView) -> DeviceView:
        raise InvalidArgument("on a device reduce works in place; hint: out=b")

    def _view_values(self, x: Any, role: str) -> DeviceView:
        return device_arrays.device_view(x, role, self.stream)

    _view_array = _view_values


def memory_of(x: Any, stream: Any = None) -> Memory:
    """Where `x` lies. stream: None is the one that the package of `x` works on now."""
    if device_arrays.is_on_device(x):
        return DeviceMemory(device_arrays.stream_number(stream, x))
    if stream is not None:
        raise InvalidArgument(
            f"stream is {stream!r} and the array is a {type(x).__name__} in host memory, which "
            "takes none"
        )
    return _HOST


def tensor_view(tensor: Any, role: str) -> View:
    """A torch tensor as values to write, wherever it lies: to see its memory takes no stream."""
    on_device = device_arrays.is_on_device(tensor)
    memory = DeviceMemory(device_arrays.LEGACY_STREAM) if on_device else _HOST
    return memory.values(tensor, role, write=True)


def memory_of_all(given: Sequence[Any], stream: Any = None) -> Memory:
    """The same of several arrays, which lie in one place; that of none is decided by the stream."""
    if given:
        return memory_of(given[0], stream)
    return _HOST if stream is None else DeviceMemory(device_arrays.stream_number(stream))


def stream_for_refusal(given: Any, stream: Any) -> int | None:
    """The stream of a call whose arguments are refused, as far as they have one."""
    first = given[0] if isinstance(given, Sequence) and given else given
    try:
        return memory_of(first, stream).stream
    except Exception:
        return None


_HOST = HostMemory()


def _checked(
    view: View, role: str, dtypes: tuple[str, ...], count: int | None, write: bool
) -> View:
    if view.dtype not in dtypes:
        raise InvalidArgument(f"{role} holds {view.dtype}; accepted are {', '.join(dtypes)}")
    if count is not None and view.count != count:
        raise InvalidArgument(f"{role} has {view.count} elements, {count} are needed")
    if write and view.read_only:
        raise InvalidArgument(f"{role} is read-only; hint: np.array({role}) is a copy that is not")
    return view
