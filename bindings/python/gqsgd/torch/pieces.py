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
        return self._tensors[index]

    def __len__(self) -> int:
        return len(self._segments)

    def results(self, out: Sequence[Any] | None) -> ArrayList:
        return self if out is self else ArrayList(self._tensors).results(out)

    def result(self) -> Sequence[Any]:
        return self

    def addresses(self) -> Any:
        begins = {key: view.address for key, view in self._views_by_buffer.items()}
        return (ctypes.c_void_p * len(self))(
            *(begins[id(each.buffer)] + each.offset * each.buffer.element_size()
              for each in self._segments)
        )

    def counts(self) -> Any:
        return (ctypes.c_size_t * len(self))(*(each.count for each in self._segments))

    def dtype_number(self) -> int:
        return common_dtype(list(self._views_by_buffer.values()))

    def stream_number(self, stream: Any) -> int | None:
        return memory_of(self._segments[0].buffer, stream).stream

    @cached_property
    def _views_by_buffer(self) -> dict[int, View]:
        buffers = {id(each.buffer): each.buffer for each in self._segments}
        return {key: tensor_view(buffer, "the bucket") for key, buffer in buffers.items()}

    @cached_property
    def _tensors(self) -> list[torch.Tensor]:
        return [each.gradient for each in self._segments]
