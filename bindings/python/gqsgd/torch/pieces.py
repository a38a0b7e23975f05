"""Pieces of buckets as the arrays of a call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch

from gqsgd.collectives.array_list import ArrayList, common_dtype
from gqsgd.memory import View, memory_of, tensor_view

from .layout import Segment


class Pieces(ArrayList):
    """Gradients in their buckets, of one dtype: a view of each bucket instead of one of each
    gradient, of which a model has hundreds. They are their own results."""

    def __init__(self, segments: Sequence[Segment]):
        self._segments = segments

    def __getitem__(self, index: Any) -> Any:
        """A view, of which making one takes some microseconds: a call needs none of them."""
        chosen = self._segments[index]
        return chosen.gradient if isinstance(chosen, Segment) else [x.gradient for x in chosen]

    def __len__(self) -> int:
        return len(self._segments)

    def results(self, out: Sequence[Any] | None) -> ArrayList:
        return self if out is self else ArrayList(self[:]).results(out)

    def result(self) -> Sequence[Any]:
        return self

    def addresses(self) -> Any:
        buffers = {key: (view.address, view.owner.element_size())
                   for key, view in self._views_by_buffer.items()}
        places = [(*buffers[id(each.buffer)], each.offset) for each in self._segments]
        return (ctypes.c_void_p * len(self))(
            *[begin + offset * size_bytes for begin, size_bytes, offset in places])

    def counts(self) -> Any:
        return (ctypes.c_size_t * len(self))(*[each.count for each in self._segments])

    def dtype_number(self) -> int:
        return common_dtype(list(self._views_by_buffer.values()))

    def stream_number(self, stream: Any) -> int | None:
        return memory_of(self._segments[0].buffer, stream).stream

    @cached_property
    def _views_by_buffer(self) -> dict[int, View]:
        buffers = {id(each.buffer): each.buffer for each in self._segments}
        return {key: tensor_view(buffer, "the bucket") for key, buffer in buffers.items()}
