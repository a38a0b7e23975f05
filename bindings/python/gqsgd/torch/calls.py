"""Calls: the allreduces of a backward pass, made of its buckets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

import gqsgd

from .budget import Budget
from .lanes import Call
from .layout import Segment
from .pieces import Pieces
from .policy import Assignment, is_adaptive, is_quantized
from .report import Part, Record, Records

#: Floats of buckets are gathered up to so many values: more would take time when backward is over.
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
        """For those of later buckets."""
        return not is_quantized(self.quantizer) and self.value_count <= GATHERED_VALUE_COUNT


class Calls:
    """One allreduce for each quantizer of a part.

    Of biases and norm layers there are few values, as floats, in almost every bucket: a call of
    them takes as long as messages and ranks that wait for each other do. Where gradients are views
    of buckets (DDP's gradient_as_bucket_view=True), nothing is to be done with a bucket before the
    step, and the floats of several go in one call. Elsewhere DDP copies a bucket to its gradients
    as soon as it is complete, and they go with it. What they are shows the first backward pass as a
    whole, on every rank alike: of one bucket a rank may use no parameter.
    """

    def __init__(
        self, assignment: Assignment, records: Records, budget: Budget | None, schedule: str
    ):
        self._assignment, self._records = assignment, records
        self._budget, self._schedule = budget, schedule
        self._step = self._count = 0
        self._gathered: dict[tuple[gqsgd.Quantizer, torch.dtype], _Call] = {}
        self._has_views = False  # as far as is seen
        self._gathers = False  # since the end of the first backward pass

    def begin(self, step: int) -> None:
        """A new backward pass."""
        self._step, self._count = step, 0
        self._gathered.clear()

    @property
    def is_gathering(self) -> bool:
        """Whether buckets so far have floats that are in no call yet."""
        return bool(self._gathered)

    def of(self, parts: Iterable[Sequence[Segment]], is_last: bool) -> list[Recorded]:
        """Those to be made now. After the last bucket nothing is left."""
        made = [call for part in parts for call in self._of_part(part)]
        if is_last:
            self._gathers = self._has_views
        gathered = list(self._gathered.values())
        if is_last or sum(call.value_count for call in gathered) > GATHERED_VALUE_COUNT:
            made = gathered + made  # the short ones first, while ranks still wait for each other
            self._gathered.clear()
        return [self._recorded(call) for call in made]

    def _of_part(self, part: Sequence[Segment]) -> list[_Call]:
        """Without those that are gathered."""
        found: dict[gqsgd.Quantizer, _Call] = {}
        self._has_views = self._has_views or any(map(_is_view, part))
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
        if self._budget is not None and is_adaptive(quantizer):
            value_counts = {part.number: part.values for part in parts}
            quantizer = self._budget.quantizer_for(quantizer, value_counts)
        gradients = Pieces(made.segments)
        call = {"arrays": gradients, "out": gradients, "q": quantizer,
                "schedule": self._schedule, "step": self._step, "index": made.index}
        return call, self._records.add(made.index, quantizer, parts)


def _is_view(segment: Segment) -> bool:
    """Whether the gradient lies in its bucket."""
    gradient, buffer = segment.parameter.grad, segment.buffer
    place = buffer.data_ptr() + segment.offset * buffer.element_size()
    return gradient is not None and gradient.data_ptr() == place
