"""What each parameter of a HookState got in a backward pass: format, bits, bytes and error."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

import gqsgd
from gqsgd.presets import short_spec

from .budget import BLOCK, Budget
from .policy import fields_of, has_mean_bits, is_quantized

_COUNTERS = "payload_bytes_sent", "uncompressed_bytes_sent"  # all ten would cost 36 us a call
_UNNAMED = "parameter "  # before a number; no name of a model has a space
_COLUMNS = ("name", "values", "format", "call", "bits", "bytes", "error")


@dataclass(frozen=True)
class Row:
    """A parameter in the last backward pass.

    bits, bytes and error are None where they are not known: bits and bytes on a GPU, bits in a
    group of one, which sends nothing, error in a pass that was not one for `measure_errors`.
    """

    name: str  #: as the model has it, or "parameter 3" without a model
    values: int
    format: str  #: specification of its quantizer, "none" for float32
    call: int  #: number of the call in the step; what is in one call has one average of bits
    bits: float | None  #: measured, of its call: bytes sent for each value, norms included, as bits
    bytes: int | None  #: measured, of its call: its part of the bytes sent, by values
    error: float | None  #: measured: ||G - mean||^2 / ||mean||^2 over its values; 0 for float32


@dataclass(frozen=True)
class Report:
    """The rows of a step, in the order of calls; `print(report)` is a table of them."""

    rows: tuple[Row, ...]
    step: int  #: of the random key; below 0 before the first backward pass
    budget: float | None  #: bits of codes, as HookState(budget=...) has it
    mean_bits: float | None  #: computed: mean_bits of all calls that have them, over values
    bits: float | None  #: measured: as in rows, over the whole model
    bytes: int | None  #: measured: what this rank sent in the step, as the communicator counts it

    def __str__(self) -> str:
        lines = [_COLUMNS, *map(_texts, self.rows)]
        values = sum(row.values for row in self.rows)
        lines.append(("whole model", f"{values:,}", "", "", _number(self.bits, ".2f"),
                      _number(self.bytes, ",d"), ""))
        widths = [max(map(len, column)) for column in zip(*lines)]
        table = [_line(line, widths) for line in lines]
        if self.mean_bits is not None:
            budget = "" if self.budget is None else f", budget {self.budget:g}"
            table.append(f"codes: {self.mean_bits:.2f} bits on average{budget}")
        if any(row.name.startswith(_UNNAMED) for row in self.rows):
            table.append("names: HookState(..., model=net) shows them in place of numbers")
        return "\n".join(table)


def _texts(row: Row) -> tuple[str, ...]:
    return (row.name, f"{row.values:,}", row.format, str(row.call), _number(row.bits, ".2f"),
            _number(row.bytes, ",d"), _number(row.error, ".2g"))


def _number(number: float | None, form: str) -> str:
    return "-" if number is None else format(number, form)


def _line(texts: Sequence[str], widths: Sequence[int]) -> str:
    """Names and formats to the left, numbers to the right."""
    left = _COLUMNS.index("name"), _COLUMNS.index("format")
    cells = (text.ljust(width) if k in left else text.rjust(width)
             for k, (text, width) in enumerate(zip(texts, widths)))
    return "  ".join(cells).rstrip()


@dataclass(frozen=True)
class Part:
    """A parameter in a call."""

    number: int
    name: str
    values: int


@dataclass
class Record:
    """What is known of a call."""

    index: int
    quantizer: gqsgd.Quantizer
    parts: list[Part]
    budget: Budget | None
    measures_errors: bool
    sent_bytes: int | None = None
    plain_bytes: int = 0  #: the same as float32
    errors: list[float] | None = None  #: of the parts
    measuring: Mapping[str, int] = field(default_factory=dict)  #: counted for the errors

    @contextmanager
    def around(self, comm: gqsgd.Communicator, call: Mapping[str, Any]) -> Iterator[None]:
        """Around the call, on host memory: bytes, norms for the budget, and errors if wanted."""
        is_compared = self.measures_errors and is_quantized(self.quantizer)
        own = [array.clone() for array in call["arrays"]] if is_compared else []
        before = comm.stats(*_COUNTERS)
        yield
        counts = comm.stats(*_COUNTERS).since(before)
        self.sent_bytes, self.plain_bytes = (counts[name] for name in _COUNTERS)
        self.measure(call)
        if is_compared:
            place = {name: call[name] for name in ("step", "index")}
            before = comm.stats()
            means = comm.allreduce_many(own, gqsgd.Quantizer("none"), **place)
            self.measuring = comm.stats().since(before)
            self.errors = [_relative(*pair) for pair in zip(call["out"], means)]
        elif self.measures_errors:
            self.errors = [0.0] * len(self.parts)

    def measure(self, call: Mapping[str, Any]) -> None:
        """After the call, or enqueued behind it: norms of the results, for the budget."""
        if self.budget is not None:
            for part, result in zip(self.parts, call["out"]):
                self.budget.measure(part.number, result)

    def rows(self) -> list[Row]:
        bits = 32 * self.sent_bytes / self.plain_bytes if self.sent_bytes else None
        errors = self.errors or [None] * len(self.parts)
        return [
            Row(part.name or f"{_UNNAMED}{part.number}", part.values, _format(self.quantizer),
                self.index, bits, part_bytes, error)
            for part, part_bytes, error in zip(self.parts, self._divided_bytes(), errors)
        ]

    def _divided_bytes(self) -> list[int | None]:
        """The bytes of the call for each part by values, with the same sum."""
        if self.sent_bytes is None:
            return [None] * len(self.parts)
        all_values = max(1, sum(part.values for part in self.parts))
        ends, values = [0], 0
        for part in self.parts:
            values += part.values
            ends.append(self.sent_bytes * values // all_values)
        return [end - begin for begin, end in zip(ends, ends[1:])]


class Records:
    """The calls of the backward pass under way, or of the last one."""

    def __init__(self, budget: Budget | None) -> None:
        self.errors_wanted = False  #: in the next backward pass
        self._budget = budget
        self._step = -1
        self._measures_errors = False
        self._calls: list[Record] = []
        self._measuring: Counter[str] = Counter()  # of passes before

    def begin(self, step: int) -> None:
        self._measuring = self.measuring()
        self._step, self._calls = step, []
        self._measures_errors, self.errors_wanted = self.errors_wanted, False

    def measuring(self) -> Counter[str]:
        """What the communicator has counted for errors alone."""
        total = self._measuring.copy()
        for call in self._calls:
            total.update(call.measuring)
        return total

    def forget_measuring(self) -> None:
        """Another communicator counts from now on."""
        self._measuring = Counter()

    def add(self, index: int, quantizer: gqsgd.Quantizer, parts: list[Part]) -> Record:
        """A call that is to come."""
        record = Record(index, quantizer, parts, self._budget, self._measures_errors)
        self._calls.append(record)
        return record

    def report(self) -> Report:
        rows = [row for call in self._calls for row in call.rows()]
        known = bool(rows) and all(call.sent_bytes is not None for call in self._calls)
        sent_bytes = sum(call.sent_bytes or 0 for call in self._calls) if known else None
        plain_bytes = sum(call.plain_bytes for call in self._calls)
        bits = 32 * sent_bytes / plain_bytes if sent_bytes else None
        budget = None if self._budget is None else self._budget.bits
        return Report(tuple(rows), self._step, budget, _mean_bits(self._calls), bits, sent_bytes)


def _relative(result: torch.Tensor, mean: torch.Tensor) -> float:
    """||result - mean||^2 / ||mean||^2; 0 where both are equal."""
    difference = (result.double() - mean.double()).square().sum()
    return (difference / mean.double().square().sum()).item() if difference else 0.0


def _format(quantizer: gqsgd.Quantizer) -> str:
    """Short, but not as a preset whose name has another mean."""
    short = short_spec(quantizer.spec)
    field = re.sub(r"^adaptive-\d,mean_bits=", "width=adaptive,mean_bits=", short)
    return re.sub(r"^rice-\d,mean_bits=", "levels=rice,mean_bits=", field)


def _mean_bits(calls: Iterable[Record]) -> float | None:
    planes = block_count = 0.0
    for call in calls:
        if has_mean_bits(call.quantizer):
            blocks = sum(-(-part.values // BLOCK) for part in call.parts)
            block_count += blocks
            planes += blocks * float(fields_of(call.quantizer)["mean_bits"])
    return planes / block_count if block_count else None
