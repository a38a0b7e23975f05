"""Tensors in one allreduce, and slices of ranks (FORMAT.md section 15)."""

import numpy as np

from . import adaptive, rice
from .allreduce import adaptive_sum, format_of, places_of, plan_of
from .block_norm import block_codes, block_count, merge_codes
from .dequantize import dequantize
from .floats import NAN_PATTERN, float32_of, ieee, narrow, widen
from .hierarchy import add_part
from .levels import Format, has_norm
from .norm import global_norm, rank_value
from .quantize import quantize
from .random import OUTPUT, random_words
from .reduce import reduce
from .rotation import ROTATION_VALUE_COUNT, rotate, rotate_back
from .schedules import part_bounds
from .words import word_count

_NORM_GROUP = 65536


def first_values(request, lengths, slices=False):
    """The element of the call at which each segment begins, and the length of the call."""
    alignment = max(32, request.block, ROTATION_VALUE_COUNT if request.rotate != "none" else 0)
    if slices and request.mean_bits:
        alignment = adaptive.SLICE_ALIGNMENT
    firsts, end, count = [], 0, 0
    for length in lengths:
        firsts.append(end)
        count = end + length
        end += -(-length // alignment) * alignment
    return firsts, count


def hash_of(lengths):
    """FNV-1a of the lengths as 64-bit little-endian integers: words 14 and 15 of the header."""
    value = 0xCBF29CE484222325
    for byte in b"".join(int(length).to_bytes(8, "little") for length in lengths):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def allreduce_many(request, inputs):
    """The values of every tensor, user patterns. inputs: for each rank one array per tensor."""
    form, rank_count = format_of(request, len(inputs)), len(inputs)
    lengths = [len(tensor) for tensor in inputs[0]]
    firsts, count = first_values(request, lengths)
    if request.mean_bits:
        return _grouped_many(request, form, inputs, lengths, firsts, count)
    rotation = ROTATION_VALUE_COUNT if request.rotate != "none" else 0
    bounds = part_bounds(count, len(places_of(request, rank_count)), request.block, rotation)
    results = []
    for k, (first, length) in enumerate(zip(firsts, lengths)):
        values = [_widened(request, tensors[k], first) for tensors in inputs]
        norm = _shared_norm(request, values, first)
        held = [quantize(form, request.call, rank, x, norm, first)
                for rank, x in enumerate(values)]
        words, scale = _combine(request, form, held, norm, first, len(values[0]), bounds)
        decoded = dequantize(form, words, scale, len(values[0]), request.op, request.call, first)
        results.append(_narrowed(request, decoded, first, length))
    return results


def _grouped_many(request, form, inputs, lengths, firsts, count):
    """Groups have values from all over the call, so that tensors are placed in it first."""
    values = [np.zeros(count, dtype=np.float32) for _ in inputs]
    present = np.zeros(count, dtype=bool)
    for k, (first, length) in enumerate(zip(firsts, lengths)):
        present[first:first + length] = True
        for own, tensors in zip(values, inputs):
            own[first:first + length] = widen(tensors[k], request.dtype)
    if request.levels == "rice":
        places = places_of(request, form.rank_count)
        decoded = rice.allreduce(request, form, places, values)[-1]
    else:
        decoded = adaptive_sum(request, form, values, present)[-1]
    return [_narrowed_floats(request, decoded[first:first + length], first, length)
            for first, length in zip(firsts, lengths)]


def reduce_scatter(request, inputs, lengths):
    """Each rank's slice of the sum or mean. inputs: for each rank all slices in one array."""
    rank_count = len(inputs)
    firsts, _ = first_values(request, lengths, slices=True)
    edges = np.cumsum([0, *lengths])
    results = []
    for k, (first, length) in enumerate(zip(firsts, lengths)):
        slices = [_widened(request, x[edges[k]:edges[k + 1]], first) for x in inputs]
        norm = _shared_norm(request, slices, first)
        values = [_decoded(request, rank_count, rank, x, norm, first, length)
                  for rank, x in enumerate(slices)]
        results.append(_narrowed_floats(request, _sum(values, request.op), first, length))
    return results


def allgather(request, slices):
    """Every rank's slice as all ranks get it."""
    firsts, _ = first_values(request, [len(x) for x in slices], slices=True)
    results = []
    for rank, (first, own) in enumerate(zip(firsts, slices)):
        values = _widened(request, own, first)
        norm = _shared_norm(request, [values], first)
        decoded = _decoded(request, len(slices), rank, values, norm, first, len(own))
        results.append(_narrowed_floats(request, decoded, first, len(own)))
    return results


def _widened(request, patterns, first):
    values = widen(patterns, request.dtype)
    return rotate(request.call, values, first) if request.rotate == "hadamard" else values


def _shared_norm(request, values, first):
    """The norm of one segment; sums are taken in the order of elements of the call."""
    if not has_norm(request.levels):
        return np.float32(1)  # nothing looks at it
    if request.block > 0:
        return merge_codes([block_codes(x, request.block) for x in values])
    before = np.zeros(first % _NORM_GROUP, dtype=np.float32)
    placed = [np.concatenate([before, x]) for x in values]
    return global_norm([rank_value(x, request.q) for x in placed], request.q, request.p)


def _combine(request, form, operands, norm, first, code_count, bounds):
    """(words, scales) of one tensor, whose codes lie in some of the call's parts."""
    plan, words, scales = plan_of(request, form.rank_count), [], []
    places = places_of(request, form.rank_count)
    for part, (part_begin, part_end) in enumerate(bounds):
        if part_begin < part_end == bounds[-1][1]:
            part_end = max(part_end, first + code_count)  # with what fills up a rotation
        begin, end = max(part_begin, first), min(part_end, first + code_count)
        if begin >= end:
            continue
        held = [_words(form, x, begin - first, end - first) for x in operands]
        if form.combine == "wide":
            norms = norm if form.block == 0 else norm[
                (begin - first) // form.block:block_count(end - first, form.block)]
            part_words, part_scales = add_part(
                request, form, places[part], held, norms, end - begin, begin)
            scales.append(part_scales)
        else:
            for step in plan.reductions:
                if step.part == part:
                    held[step.rank] = reduce(
                        form, request.call, step.rank, step.hop, (step.weight_a, step.weight_b),
                        held[step.peer], held[step.rank], end - begin, begin)
            part_words = held[plan.owners[part]]
        words.append(part_words)
    joined = np.concatenate(words) if words else operands[0]
    return joined, np.concatenate(scales) if scales and form.block > 0 else norm


def _words(form, words, begin, end):
    first = word_count(begin, form.bits)
    return words[first:first + word_count(end - begin, form.bits)]


def _decoded(request, rank_count, rank, values, norm, first, length):
    """float32 values that one rank's codes stand for, rotated back."""
    def form(count):
        return Format(request.levels, request.bits, "wide", count, 0, request.rounding,
                      request.block, 0, False, "random", request.rotate, request.mantissa_bits,
                      request.mean_bits)
    if request.levels == "rice":
        return _canonical(rice.decoded_slice(form(rank_count), request.call, rank, values, first))
    if request.mean_bits:
        widths = adaptive.widths_of_slice(norm, request.mean_bits)
        codes = adaptive.quantize(form(rank_count), request.call, rank, values, norm, widths, first)
        return _canonical(adaptive.dequantize(form(1), codes, norm, widths, "sum", request.call,
                                              first))
    words = quantize(form(rank_count), request.call, rank, values, norm, first)
    decoded = dequantize(form(1), words, norm, len(values), "sum", request.call, first)
    if request.rotate == "hadamard":
        decoded = rotate_back(request.call, decoded, length, first)
    return _canonical(decoded)


@ieee
def _sum(values, op):
    total = values[0]
    for more in values[1:]:
        total = _canonical(total + more)
    return _canonical(total / np.float32(len(values))) if op == "mean" else total


def _canonical(values):
    return np.where(np.isnan(values), float32_of(NAN_PATTERN["float32"]), values)


def _narrowed(request, decoded, first, length):
    if request.rotate == "hadamard":
        decoded = rotate_back(request.call, decoded, length, first)
    return _narrowed_floats(request, decoded, first, length)


def _narrowed_floats(request, values, first, length):
    dither = random_words(request.call, OUTPUT, 0, 0, first, length)
    return narrow(values, request.dtype, dither, request.rounding == "nearest")
