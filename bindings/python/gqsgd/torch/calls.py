"""Calls: the allreduces of a backward pass, made of its buckets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

import gqsgd

from .budget import Budget
from .lanes import Call
from .layout import Segment
from .pieces import Pieces
from .policy import Assignment, has_mean_bits, is_quantized
from .report import Part, Record, Records

#: Floats of buckets are gathered until they are more: they would take time when backward is over.
GATHERED_VALUE_COUNT = 32768

Recorded = tuple[Call, Record]


@dataclass(eq=False)
class _Group:
    """Parameters of a part that have one quantizer: the same in every pass."""

    quantizer: gqsgd.Quantizer
    places: list[int] = field(default_factory=list)  # in the part
    parts: list[Part] = field(default_factory=list)

    @property
    def value_count(self) -> int:
        return sum(part.values for part in self.parts)

    @property
    def may_wait(self) -> bool:
        """Whether it may go together with floats of later buckets."""
        return not is_quantized(self.quantizer) and self.value_count <= GATHERED_VALUE_COUNT


@dataclass(eq=False)
class _Call:
    """What goes together, in the order of its segments."""

    quantizer: gqsgd.Quantizer
    index: int  # in the step
    segments: list[Segment]
    parts: list[Part]


class Calls:
    """One allreduce for each quantizer of a part.

    Of biases and norm layers there are few values, as floats, in almost every bucket: a call of
    them takes as long as messages and ranks that wait for each other do. `gathers`: those of
    several buckets go in one call.
    """

    def __init__(
        self, assignment: Assignment, records: Records, budget: Budget | None, schedule: str,
        gathers: bool,
    ):
        self._assignment, self._records = assignment, records
        self._budget, self._schedule, self._gathers = budget, schedule, gathers
        self._count = 0
        self._gathered: dict[tuple[gqsgd.Quantizer, torch.dtype], _Call] = {}
        self._groups: dict[tuple[int, ...], list[_Group]] = {}  # by the numbers of a part

    def forget(self) -> None:
        """Numbers and quantizers of parameters are to be others."""
        self._groups.clear()

    def begin(self, key_of: Callable[[int], Mapping[str, Any]]) -> None:
        """A new backward pass; `key_of` an index is the random key of that call."""
        self._key_of, self._count = key_of, 0
        self._gathered.clear()

    @property
    def is_gathering(self) -> bool:
        """Whether buckets so far have floats that are in no call yet."""
        return bool(self._gathered)

    def of(self, parts: Sequence[Sequence[Segment]], is_last: bool) -> list[Recorded]:
        """Those to be made now. After the last bucket nothing is left."""
        made = []
        for k, part in enumerate(parts):
            own = self._of_part(part)
            at_end = is_last and k + 1 == len(parts)
            if self._gathered and (at_end or self._gathered_count() > GATHERED_VALUE_COUNT):
                made += self._gathered.values()  # short, while ranks still wait for each other
                self._gathered.clear()
            made += own
        return [self._recorded(call) for call in made]

    def _gathered_count(self) -> int:
        return sum(part.values for call in self._gathered.values() for part in call.parts)

    def _of_part(self, part: Sequence[Segment]) -> list[_Call]:
        """Without those that are gathered."""
        made = []
        for group in self._groups_of(part):
            segments = [part[place] for place in group.places]
            call = _Call(group.quantizer, self._count, segments, group.parts)
            self._count += 1
            if not self._gathers or not group.may_wait:
                made.append(call)
                continue
            key = call.quantizer, segments[0].buffer.dtype  # a bucket has one
            gathered = self._gathered.setdefault(key, _Call(call.quantizer, call.index, [], []))
            gathered.segments += call.segments
            gathered.parts += call.parts
        return made

    def _groups_of(self, part: Sequence[Segment]) -> list[_Group]:
        numbers = tuple([segment.number for segment in part])
        if numbers not in self._groups:
            found: dict[gqsgd.Quantizer, _Group] = {}
            for place, segment in enumerate(part):
                quantizer = self._assignment.quantizer_of(segment.parameter)
                group = found.setdefault(quantizer, _Group(quantizer))
                group.places.append(place)
                name = self._assignment.name_of(segment.parameter)
                group.parts.append(Part(segment.number, name, segment.count))
            self._groups[numbers] = list(found.values())
        return self._groups[numbers]

    def _recorded(self, made: _Call) -> Recorded:
        quantizer = made.quantizer
        if self._budget is not None and has_mean_bits(quantizer):
            value_counts = {part.number: part.values for part in made.parts}
            quantizer = self._budget.quantizer_for(quantizer, value_counts)
        gradients = Pieces(made.segments)
        call = {"arrays": gradients, "out": gradients, "q": quantizer,
                "schedule": self._schedule, **self._key_of(made.index)}
        return call, self._records.add(made.index, quantizer, made.parts)
