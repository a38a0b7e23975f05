"""A whole allreduce over simulated ranks: norm, quantize, schedule, dequantize."""

from dataclasses import dataclass, field

import numpy as np

from .dequantize import dequantize
from .floats import narrow, widen
from .levels import Format
from .norm import global_norm, rank_value
from .quantize import quantize
from .random import OUTPUT, Call, random_words
from .reduce import reduce
from .schedules import SCHEDULES, part_bounds
from .wide import add_wide
from .words import word_count


@dataclass(frozen=True)
class Request:
    """Everything that all ranks agree on before an allreduce."""

    schedule: str
    levels: str
    bits: int
    combine: str
    op: str = "mean"
    dtype: str = "float32"
    q: str = "inf"
    p: str = "inf"
    nearest: bool = False
    call: Call = field(default_factory=Call)


@dataclass(frozen=True)
class Result:
    """norm, scale: float32; words: the reduced codes of the whole call; values: user patterns."""

    norm: np.float32
    scale: np.float32
    words: np.ndarray
    values: np.ndarray


def format_of(request, rank_count):
    """The codes that a request makes among `rank_count` ranks."""
    combine = "wide" if request.schedule == "direct" else request.combine
    combines = SCHEDULES[request.schedule](rank_count).combines
    return Format(request.levels, request.bits, combine, rank_count, combines, request.nearest)


def allreduce(request, inputs):
    """The Result that every rank gets. inputs: one array of user patterns per rank."""
    form = format_of(request, len(inputs))
    values = [widen(patterns, request.dtype) for patterns in inputs]
    norm = np.float32(1)  # levels none have no norm
    if request.levels != "none":
        norm = global_norm([rank_value(x, request.q) for x in values], request.q, request.p)
    value_count = len(inputs[0])
    operands = [quantize(form, request.call, rank, x, norm) for rank, x in enumerate(values)]
    words, scale = _combine(request, form, operands, norm, value_count)
    decoded = dequantize(form, words, scale, value_count, request.op)
    dither = random_words(request.call, OUTPUT, 0, 0, 0, value_count)
    return Result(norm, scale, words, narrow(decoded, request.dtype, dither, request.nearest))


def _combine(request, form, operands, norm, value_count):
    """(words of the whole call, scale) after the schedule has run."""
    plan = SCHEDULES[request.schedule](form.rank_count)
    bounds = part_bounds(value_count, len(plan.owners))
    held = [[_slice(words, form, part) for part in bounds] for words in operands]
    scale = norm
    for step in plan.reductions:
        begin, end = bounds[step.part]
        held[step.rank][step.part] = reduce(
            form, request.call, step.rank, step.hop, (step.weight_a, step.weight_b),
            held[step.peer][step.part], held[step.rank][step.part], end - begin, begin)
    if form.combine == "wide":
        for part, (begin, end) in enumerate(bounds):
            parts = [rank_parts[part] for rank_parts in held]
            held[part][part], scale = add_wide(
                form, request.call, part, parts, norm, end - begin, begin)
    reduced = [held[owner][part] for part, owner in enumerate(plan.owners)]
    return np.concatenate(reduced), scale


def _slice(words, form, bounds):
    """A part's words: parts begin at multiples of 32 elements, so at whole words."""
    begin, end = bounds
    first = word_count(begin, form.bits)
    return words[first:first + word_count(end - begin, form.bits)]
