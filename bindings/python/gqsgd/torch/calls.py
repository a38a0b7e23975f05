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
class _Call:
    """What goes together, in the order of its segments."""

    quantizer: gqsgd.Quantizer
    index: int  # in the step
    segments: list[Segment] = field(default_factory=list)

    @property
    def value_count(self) -> int:
        return sum(segment.count for segment in self.segments)

    @property
    def may_wait(self) -> bool:
        """Whether it may go together with floats of later buckets."""
        return not is_quantized(self.quantizer) and self.value_count <= GATHERED_VALUE_COUNT


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
            gathered = list(self._gathered.values())
            at_end = is_last and k + 1 == len(parts)
            if at_end or sum(call.value_count for call in gathered) > GATHERED_VALUE_COUNT:
                made += gathered  # the short ones first, while ranks still wait for each other
                self._gathered.clear()
            made += own
        return [self._recorded(call) for call in made]

    def _of_part(self, part: Sequence[Segment]) -> list[_Call]:
        """Without those that are gathered."""
        found: dict[gqsgd.Quantizer, _Call] = {}
        for segment in part:
            quantizer = self._assignment.quantizer_of(segment.parameter)
            if quantizer not in found:
                found[quantizer] = _Call(quantizer, self._count)
                self._count += 1
            found[quantizer].segments.append(segment)
        waiting = [call for call in found.values() if self._gathers and call.may_wait]
        for call in waiting:
            key = call.quantizer, call.segments[0].buffer.dtype  # a bucket has one
            gathered = self._gathered.setdefault(key, _Call(call.quantizer, call.index))
            gathered.segments += call.segments
        return [call for call in found.values() if call not in waiting]

    def _recorded(self, made: _Call) -> Recorded:
        quantizer = made.quantizer
        parts = [
            Part(each.number, self._assignment.name_of(each.parameter), each.count)
            for each in made.segments
        ]
        if self._budget is not None and has_mean_bits(quantizer):
            value_counts = {part.number: part.values for part in parts}
            quantizer = self._budget.quantizer_for(quantizer, value_counts)
        gradients = Pieces(made.segments)
        call = {"arrays": gradients, "out": gradients, "q": quantizer,
                "schedule": self._schedule, **self._key_of(made.index)}
        return call, self._records.add(made.index, quantizer, parts)
