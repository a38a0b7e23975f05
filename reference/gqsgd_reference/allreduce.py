"""A whole allreduce over simulated ranks: rotate, norm, quantize, schedule, dequantize, back."""

from dataclasses import dataclass, field

import numpy as np

from . import adaptive, rice
from .block_norm import block_codes, block_count, merge_codes
from .dequantize import dequantize
from .floats import narrow, widen
from .hierarchy import add_part, is_flat, shard_places
from .levels import Format, has_norm
from .norm import global_norm, rank_value
from .quantize import quantize
from .random import OUTPUT, Call, random_words
from .reduce import add_integers, reduce
from .rotation import ROTATION_VALUE_COUNT, rotate, rotate_back
from .schedules import SCHEDULES, part_bounds
from .sparse import add_entries, entries_pay, select
from .words import word_count


@dataclass(frozen=True)
class Request:
    """Everything that all ranks agree on before an allreduce; fields as in a specification.
    nodes: an id for each rank, in the hierarchical schedule."""

    schedule: str
    levels: str
    bits: int
    combine: str
    op: str = "mean"
    dtype: str = "float32"
    q: str = "inf"
    p: str = "inf"
    rounding: str = "independent"
    block: int = 0
    bits_down: int = 0
    rescale: bool = False
    rounding_down: str = "random"
    rotate: str = "none"
    mantissa_bits: int = 0
    mean_bits: float = 0  # of width=adaptive and levels=rice, where bits is 0; else 0
    call: Call = field(default_factory=Call)
    nodes: tuple = ()

    def __post_init__(self):
        if self.block > 0 and (self.q, self.p) != ("inf", "inf"):
            raise ValueError(f"norms per block are maxima: q:p is {self.q}:{self.p}, not inf:inf")
        if self.schedule == "native" and (self.levels, self.combine) != ("linear", "exact"):
            raise ValueError("the native schedule adds integers: linear levels, exact sums")
        if self.mean_bits and (self.schedule not in ("direct", "hierarchical")
                               or self.combine != "exact"):
            raise ValueError("codes in groups need direct or hierarchical, and combine=exact")
        if self.schedule == "sparse":
            for field in self._dense_fields():
                raise ValueError(f"the sparse schedule does not go with {field}")

    def _dense_fields(self):
        """What sparse entries cannot stand for."""
        fields = {f"levels={self.levels}": not has_norm(self.levels), "block": self.block > 0,
                  "rotate": self.rotate != "none", "rescale": self.rescale,
                  "bits_down": self.bits_down not in (0, self.bits),
                  "rounding_down": self.rounding_down != "random",
                  "mantissa_bits": self.mantissa_bits > 0}
        return [field for field, present in fields.items() if present]


@dataclass(frozen=True)
class Result:
    """norm, scale: one float32, or uint16 codes of blocks; words: the reduced codes of the whole
    call, none where sparse entries were added; values: user patterns; entry_counts: of each rank,
    in the sparse schedule."""

    norm: np.ndarray
    scale: np.ndarray
    words: np.ndarray
    values: np.ndarray
    entry_counts: tuple = ()


_WIDE = ("direct", "sparse", "hierarchical")


def format_of(request, rank_count):
    """The codes that a request makes among `rank_count` ranks."""
    plan = plan_of(request, rank_count)
    combine = "wide" if request.schedule in _WIDE else request.combine
    return Format(request.levels, request.bits, combine, rank_count, plan.reduction_depth,
                  request.rounding,
                  request.block, request.bits_down, request.rescale, request.rounding_down,
                  request.rotate, request.mantissa_bits, request.mean_bits)


def plan_of(request, rank_count):
    """The reductions of a request; those of direct where there are too many sparse entries, and in
    a hierarchy, which has none in code form either."""
    schedule = "direct" if request.schedule in _WIDE else request.schedule
    return SCHEDULES[schedule](rank_count)


def allreduce(request, inputs):
    """The Result that every rank gets. inputs: one array of user patterns per rank."""
    form = format_of(request, len(inputs))
    values = [widen(patterns, request.dtype) for patterns in inputs]
    if request.levels == "rice":
        words, decoded = rice.allreduce(request, form, places_of(request, len(inputs)), values)
        return _narrowed(request, form, np.float32(0), np.float32(0), words, decoded)
    if request.mean_bits:
        present = np.ones(len(inputs[0]), dtype=bool)
        return _narrowed(request, form, *adaptive_sum(request, form, values, present))
    if request.rotate == "hadamard":
        values = [rotate(request.call, x) for x in values]
    norm = shared_norm(request, values)
    operands = [quantize(form, request.call, rank, x, norm) for rank, x in enumerate(values)]
    value_count = len(inputs[0])
    ranks_entries = []
    if request.schedule == "sparse":
        ranks_entries = [select(form, words, value_count) for words in operands]
    if ranks_entries and entries_pay(form, ranks_entries, value_count):
        words, scale = np.uint32([]), norm
        decoded = add_entries(form, ranks_entries, norm, value_count, request.op)
    else:
        words, scale = _combine(request, form, operands, norm, len(values[0]))
        decoded = dequantize(form, words, scale, len(values[0]), request.op, request.call)
    if request.rotate == "hadamard":
        decoded = rotate_back(request.call, decoded, value_count)
    counts = tuple(len(entries) for entries in ranks_entries)
    return _narrowed(request, form, norm, scale, words, decoded, counts)


def adaptive_sum(request, form, values, present):
    """(norms, scales, words, float32 values) of an allreduce with width=adaptive.

    values: float32 of each rank, for every element of the call; present: whether an element is one
    of a segment. Values of the others are 0.
    """
    value_count, rank_count = len(present), form.rank_count
    norms = shared_norm(request, values)
    groups = adaptive.groups_of(value_count, rank_count, form.mean_bits)
    widths = adaptive.widths_of_call(groups, norms)
    codes = [adaptive.quantize(form, request.call, rank, x, norms, widths)
             for rank, x in enumerate(values)]
    codes, scales = adaptive.add_call(request, form, groups, places_of(request, rank_count), codes,
                                      norms, widths)
    decoded = adaptive.dequantize(form, codes, scales, widths, request.op, request.call)
    return norms, scales, adaptive.words_of_call(groups, codes, widths, present), decoded


def _narrowed(request, form, norm, scale, words, decoded, entry_counts=()):
    dither = random_words(request.call, OUTPUT, 0, 0, 0, len(decoded))
    return Result(norm, scale, words, narrow(decoded, request.dtype, dither, form.nearest),
                  entry_counts)


def places_of(request, rank_count):
    """The owner of each part; in a hierarchy the (part, node) of each shard."""
    if request.schedule == "hierarchical" and not is_flat(request.nodes):
        return shard_places(request.nodes)
    return plan_of(request, rank_count).owners


def shared_norm(request, values):
    """The norm of all ranks' float32 values, or the codes of their blocks' norms."""
    if not has_norm(request.levels):
        return np.float32(1)  # nothing looks at it
    if request.block > 0:
        return merge_codes([block_codes(x, request.block) for x in values])
    return global_norm([rank_value(x, request.q) for x in values], request.q, request.p)


def _combine(request, form, operands, norm, value_count):
    """(words of the whole call, scale) after the schedule has run."""
    if request.schedule == "native":
        return add_integers(operands), norm
    plan = plan_of(request, form.rank_count)
    places = places_of(request, form.rank_count)
    rotation = ROTATION_VALUE_COUNT if form.rotate == "hadamard" else 0
    bounds = part_bounds(value_count, len(places), form.block, rotation)
    held = [[_slice(words, form, part) for part in bounds] for words in operands]
    for step in plan.reductions:
        begin, end = bounds[step.part]
        held[step.rank][step.part] = reduce(
            form, request.call, step.rank, step.hop, (step.weight_a, step.weight_b),
            held[step.peer][step.part], held[step.rank][step.part], end - begin, begin)
    if form.combine == "wide":
        return _add_parts(request, form, held, bounds, norm, places)
    return np.concatenate([held[owner][part] for part, owner in enumerate(plan.owners)]), norm


def _add_parts(request, form, held, bounds, norm, places):
    """(words, scale) of wide sums. places: the owner of each part, or what it is in a hierarchy."""
    words, scales = [], []
    for part, (begin, end) in enumerate(bounds):
        operands = [rank_parts[part] for rank_parts in held]
        norms = norm
        if form.block > 0:
            norms = norm[begin // form.block:block_count(end, form.block)]
        part_words, part_scales = add_part(
            request, form, places[part], operands, norms, end - begin, begin)
        words.append(part_words)
        scales.append(part_scales)
    return np.concatenate(words), np.concatenate(scales) if form.block > 0 else norm


def _slice(words, form, bounds):
    """A part's words: parts begin at multiples of 32 elements, so at whole words."""
    begin, end = bounds
    first = word_count(begin, form.bits)
    return words[first:first + word_count(end - begin, form.bits)]
