"""Layout: which parameters are reduced together, through rebuilt buckets and checkpoints.

The random numbers of a value depend on its place in a call, and DDP decides what a bucket holds
twice: at construction, and again after the first backward, by the order in which gradients became
ready. A process that resumes from a checkpoint starts with the first division where the one that
wrote it was at the second. So the division is saved, and a resumed state gathers the gradients of
its first two backward passes by it: of a static graph DDP divides anew after the second. Parameters
are numbered in the order of a new DDP's buckets, which is a matter of the model alone.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist

from gqsgd import InvalidArgument

from .ddp import Place
from .parameters import ParameterMap


#: Backward passes until the buckets of a new process are those of the one before it.
GATHERING_COUNT = 2


class Segment(NamedTuple):
    """A parameter, its number, and where its gradient lies in a bucket."""

    parameter: torch.Tensor
    number: int
    buffer: torch.Tensor  #: of the bucket, flat
    offset: int  #: in values of the bucket, of which a complex number is two
    count: int

    @property
    def gradient(self) -> torch.Tensor:
        """Flat, whatever its memory format, and without a copy."""
        return self.buffer[self.offset : self.offset + self.count]


class _Places(NamedTuple):
    """Where a bucket has its parameters, which it does not keep alive."""

    parameters: list[weakref.ref[torch.Tensor]]
    rows: list[tuple[int, int, int]]  #: number, offset and count of each

    def are_of(self, parameters: Sequence[torch.Tensor]) -> bool:
        own = self.parameters
        return len(own) == len(parameters) and all(
            known() is parameter for known, parameter in zip(own, parameters))


class Layout:
    """Follows the buckets of one model, backward after backward."""

    def __init__(self, saved: Sequence[Sequence[int]] = ()):
        """saved: `numbers` of the state that a checkpoint was written from."""
        self._saved = [list(part) for part in saved]
        self._gathered: list[Segment] = []
        self._gathering_count = GATHERING_COUNT if saved else 0  # passes to come that are gathered
        self._numbers = ParameterMap()
        self._number_count = 0
        self._complete = False  # every parameter has its number
        self._places: dict[int, _Places] = {}  # by index of the bucket, of the last pass
        self._current: list[list[int]] = []  # of the backward under way, or of the last one

    def resumed(self, saved: Sequence[Sequence[int]]) -> Layout:
        """A layout of the same model that continues from `saved`."""
        layout = Layout(saved)
        layout._numbers, layout._number_count = self._numbers, self._number_count
        layout._complete = self._complete
        return layout

    @property
    def is_gathering(self) -> bool:
        """Whether the next pass, or the one under way, is divided as the saved one."""
        return self._gathering_count > 0

    @property
    def numbers(self) -> list[list[int]]:
        """The parameters of each part of the last backward, by number."""
        return [list(part) for part in self._current or self._saved]

    def parts(self, bucket: dist.GradBucket, place: Place) -> list[list[Segment]]:
        """What is to be reduced now that `bucket` is ready, each part as one operation: the
        bucket, or nothing until all have come and then everything in the saved division."""
        segments = self._segments(bucket)
        if place.is_first:
            self._current = []
        self._current.append([segment.number for segment in segments])
        self._complete = self._complete or place.is_last
        if not self.is_gathering:
            return [segments]
        if place.is_first:
            self._gathered = []
        self._gathered += segments
        return self._divided() if place.is_last else []

    def _segments(self, bucket: dist.GradBucket) -> list[Segment]:
        buffer, parameters = bucket.buffer(), bucket.parameters()
        places = self._places.get(bucket.index())
        if places is None or not places.are_of(parameters):
            places = self._places[bucket.index()] = self._found_places(parameters)
        return [Segment(parameter, number, buffer, offset, count)
                for parameter, (number, offset, count) in zip(parameters, places.rows)]

    def _found_places(self, parameters: Sequence[torch.Tensor]) -> _Places:
        offset, rows = 0, []
        for parameter in parameters:
            count = parameter.numel() * (2 if parameter.is_complex() else 1)  # pairs in a bucket
            rows.append((self._number_of(parameter), offset, count))
            offset += count
        return _Places([weakref.ref(parameter) for parameter in parameters], rows)

    def _number_of(self, parameter: torch.Tensor) -> int:
        """A number that is the same on every rank, and after a checkpoint."""
        if parameter not in self._numbers:
            if self._complete:
                raise InvalidArgument(
                    f"a parameter of shape {tuple(parameter.shape)} is not of the model that this "
                    "state has served so far; hint: one HookState for each model, and a new one, "
                    "with the step of this one, where more of its parameters get gradients"
                )
            self._numbers[parameter] = self._number_count
            self._number_count += 1
        number: int = self._numbers[parameter]
        return number

    def _divided(self) -> list[list[Segment]]:
        """The gathered gradients in the saved division."""
        by_number = {segment.number: segment for segment in self._gathered}
        saved = sorted(number for part in self._saved for number in part)
        if saved != sorted(by_number):
            raise InvalidArgument(
                f"this state continues one of {len(saved)} parameters that get gradients, the "
                f"model has {len(by_number)}; hint: load the state of this model, or go on with a "
                "new HookState, with the step of this one"
            )
        self._gathering_count -= 1
        self._gathered, self._current = [], self._saved
        return [[by_number[number] for number in part] for part in self._saved]
