"""Arrays that go in one call, with their addresses as the library takes them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import InvalidArgument
from ..memory import Memory, View, memory_of_all


class ArrayList(Sequence[Any]):
    """The arrays of a call. Other kinds of lists know the addresses of theirs without a view of
    each."""

    def __init__(self, arrays: Iterable[Any], stream: Any = None):
        self._arrays = list(arrays)
        self._memory = memory_of_all(self._arrays, stream)
        self._views = [self._memory.values(x, f"arrays[{k}]") for k, x in enumerate(self._arrays)]

    @classmethod
    def _of(cls, views: Sequence[View], memory: Memory) -> ArrayList:
        made = cls.__new__(cls)
        made._arrays, made._memory, made._views = [x.owner for x in views], memory, list(views)
        return made

    def __getitem__(self, index: Any) -> Any:
        return self._arrays[index]

    def __len__(self) -> int:
        return len(self._arrays)

    def results(self, out: Sequence[Any] | None) -> ArrayList:
        """`out` as results for these; new arrays for None."""
        if out is not None and len(out) != len(self):
            raise InvalidArgument(f"out has {len(out)} arrays for {len(self)} in arrays")
        given = [None] * len(self) if out is None else out
        views = [self._memory.result(given[k], view, f"out[{k}]", f"arrays[{k}]")
                 for k, view in enumerate(self._views)]
        return self._of(views, self._memory)

    def result(self) -> Sequence[Any]:
        """What a caller gets of results."""
        return self._arrays

    def addresses(self) -> Any:
        return (ctypes.c_void_p * len(self))(*(view.address for view in self._views))

    def counts(self) -> Any:
        """Values of each, as an array of c_size_t."""
        return (ctypes.c_size_t * len(self))(*(view.count for view in self._views))

    def dtype_number(self) -> int:
        """The one of all; 0 for none."""
        return common_dtype(self._views)

    def stream_number(self, stream: Any) -> int | None:
        """The stream of a call, as the library takes it; None in host memory."""
        return memory_of_all(self._arrays, stream).stream


def common_dtype(views: Sequence[View]) -> int:
    """Its number; 0 of no views."""
    names = list(dict.fromkeys(view.dtype for view in views))
    if len(names) > 1:
        raise InvalidArgument(f"arrays hold {' and '.join(names)}; make one call for each dtype")
    number: int = views[0].dtype_number if views else 0
    return number
