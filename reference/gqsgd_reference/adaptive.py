"""Codes whose bits follow from the norms of their blocks (FORMAT.md section 16)."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from .block_norm import NAN_CODE, block_count, norms_of
from .dequantize import linear_values
from .floats import ieee
from .hierarchy import add_part
from .quantize import linear_codes, quantize_bits
from .wide import means_scales, reencode_bits, rescaled, sum_in_order

BLOCK = 128
GRANULE = 1024  # elements that a group takes from one place of a call
SLICE_GROUP = 256  # consecutive blocks of a slice
SLICE_ALIGNMENT = BLOCK * SLICE_GROUP
WIDTHS = range(3, 9)
_OFFSETS = np.array([0, 421, 742, 1028, 1298, 1561])  # of these widths
_FLT_MAX_CODE = 0x7F80
_BLOCKS_PER_GRANULE = GRANULE // BLOCK


@dataclass(frozen=True)
class Groups:
    """The groups of an allreduce. granules: of each, in order; group_granules: K; planes: P."""

    granules: tuple
    group_granules: int
    planes: int

    def blocks(self, group, blocks_of_call):
        """The blocks of a group, in their order."""
        return [block for granule in self.granules[group]
                for block in range(granule * _BLOCKS_PER_GRANULE,
                                   min((granule + 1) * _BLOCKS_PER_GRANULE, blocks_of_call))]


def groups_of(value_count, rank_count, mean_bits):
    """The Groups of an allreduce of so many elements."""
    M, D = -(-value_count // GRANULE), block_count(value_count, BLOCK)
    G = min(rank_count * -(-M // (32 * rank_count)), -(-M // 8))
    if G == 0:
        return Groups((), 0, 0)
    return Groups(tuple(tuple(range(g, M, G)) for g in range(G)), -(-M // G),
                  int(mean_bits * D) // G)


def widths_of(codes, planes):
    """The bits of a group's blocks, by their norm codes, in order."""
    codes = np.asarray(codes, dtype=np.int64)
    regular = (codes > 0) & (codes <= _FLT_MAX_CODE)
    distances = codes[:, None] - _OFFSETS  # width w has its bit for all thresholds up to this one
    distances = np.where(regular[:, None], distances, -2**31)
    left = planes - 2 * int(regular.sum())
    if left < 0:
        raise ValueError(f"{planes} planes are not 2 for each of {regular.sum()} blocks")
    wanted = np.sort(distances[regular].reshape(-1))[::-1]
    t = -_OFFSETS[-1] if len(wanted) <= left else wanted[left] + 1
    widths = np.where(regular, 2 + (distances >= t).sum(axis=1), 0)
    if t > -_OFFSETS[-1]:
        left -= int((distances >= t).sum())
        more = np.flatnonzero((distances == t - 1).any(axis=1))[:left]
        widths[more] += 1
    return widths


def widths_of_call(groups, codes):
    """The bits of every block of an allreduce, in the order of the call."""
    widths = np.zeros(len(codes), dtype=np.int64)
    for group in range(len(groups.granules)):
        blocks = groups.blocks(group, len(codes))
        widths[blocks] = widths_of(codes[blocks], groups.planes)
    return widths


def widths_of_slice(codes, mean_bits):
    """The bits of every block of a slice."""
    widths = [widths_of(codes[begin:begin + SLICE_GROUP],
                        int(mean_bits * len(codes[begin:begin + SLICE_GROUP])))
              for begin in range(0, len(codes), SLICE_GROUP)]
    return np.concatenate(widths) if widths else np.zeros(0, dtype=np.int64)


def steps_of(widths):
    """s of blocks: 0 where there are no bits."""
    return np.where(widths > 0, 2**(np.maximum(widths, 1) - 1) - 1, 0)


def per_value(of_blocks, value_count):
    """What each block has, for each of its elements."""
    return np.repeat(of_blocks, BLOCK)[:value_count]


def pack_planes(lanes, widths, planes):
    """The words of a group: of its blocks' lanes, shape (blocks, 128), then zeros to 4 P."""
    words = []
    for block_lanes, width in zip(np.asarray(lanes, dtype=np.uint64), widths):
        for p in range(width):
            bits = (block_lanes >> np.uint64(p)) & np.uint64(1)
            places = np.arange(32, dtype=np.uint64)
            words += [int((row << places).sum()) for row in bits.reshape(4, 32)]
    return np.array(words + [0] * (4 * planes - len(words)), dtype=np.uint32)


def unpack_planes(words, widths):
    """The lanes of a group's blocks, shape (blocks, 128)."""
    lanes, begin = np.zeros((len(widths), BLOCK), dtype=np.int64), 0
    for block, width in enumerate(widths):
        for p in range(width):
            row = np.asarray(words[begin + 4 * p:begin + 4 * p + 4], dtype=np.uint32)
            bits = row[:, None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)
            lanes[block] |= bits.reshape(-1).astype(np.int64) << p
        begin += 4 * width
    return lanes


def words_of_call(groups, codes, widths, present):
    """The words of an allreduce's codes, in the order of groups.

    codes: signed, one per element of the call; present: whether an element is one of a segment.
    """
    padded = np.zeros(len(widths) * BLOCK, dtype=np.int64)
    padded[:len(codes)] = np.where(present, codes + per_value(steps_of(widths), len(codes)), 0)
    lanes = padded.reshape(-1, BLOCK)
    words = []
    for group in range(len(groups.granules)):
        blocks = groups.blocks(group, len(widths))
        words.append(pack_planes(lanes[blocks], widths[blocks], groups.planes))
    return np.concatenate(words) if words else np.uint32([])


def quantize(form, call, rank, values, codes, widths, first_value=0):
    """Signed codes of float32 values; codes: of the norms of their blocks."""
    r = quantize_bits(form, call, rank, first_value, len(values))
    norms, s = per_value(norms_of(codes), len(values)), per_value(steps_of(widths), len(values))
    return linear_codes(values, norms, s, r)


def add_wide(form, call, owner, operands, norms, value_count, first_value, hop=1, weights=None, *,
             widths):
    """(codes, scales) of the sum of all ranks' codes: as wide.add_wide, but not packed.

    norms, widths: of the blocks of these elements.
    """
    s = steps_of(widths)
    S = np.zeros(value_count, dtype=np.int64)
    for codes, weight in zip(operands, weights or [1] * len(operands)):
        S += weight * codes
    S = S.astype(np.float32)
    if form.rescale:
        full = np.where(s > 0, form.rank_count * s, 1).astype(np.float64)
        scales, sum_norms = rescaled(S, norms_of(norms), full, BLOCK)
    else:
        scales, sum_norms = norms, (form.rank_count * s).astype(np.float32)
    r = reencode_bits(form, call, owner, hop, first_value, value_count)
    return linear_codes(S, per_value(sum_norms, value_count), per_value(s, value_count), r), scales


def add_means(form, call, owner, means, weights, value_count, first_value, hop=2, *, norms, widths):
    """(codes, scales) of the mean over all ranks: as wide.add_scaled_means, but not packed.

    norms, widths: of the blocks of these elements.
    """
    s = steps_of(widths)
    S = sum_in_order([_scaled_mean(form, *mean, weight, s)
                      for mean, weight in zip(means, weights)])
    without_codes = np.where(norms > _FLT_MAX_CODE, NAN_CODE, 0)
    scales = np.where(s > 0, means_scales(S, BLOCK), without_codes).astype(np.uint16)
    r = reencode_bits(form, call, owner, hop, first_value, value_count)
    return linear_codes(S, per_value(norms_of(scales), value_count), per_value(s, value_count),
                        r), scales


@ieee
def _scaled_mean(form, codes, scales, weight, s):
    """What the mean of `weight` ranks adds to that of all; 0 where blocks have no codes."""
    w = (np.float64(weight) / (np.float64(form.rank_count) * np.maximum(s, 1))).astype(np.float32)
    factors = np.where(s > 0, norms_of(scales) * w, np.float32(0))
    return codes.astype(np.float32) * per_value(factors, len(codes))


def add_call(request, form, groups, places, operands, norms, widths):
    """(codes, scales) of a whole allreduce. places: as allreduce.places_of gives them."""
    value_count = len(operands[0])
    codes, scales = np.zeros(value_count, dtype=np.int64), np.zeros(len(norms), dtype=np.uint16)
    groups_per_part = -(-len(groups.granules) // len(places))
    for group, granules in enumerate(groups.granules):
        place = places[group // groups_per_part]  # a part is whole groups
        for granule in granules:
            begin, end = granule * GRANULE, min((granule + 1) * GRANULE, value_count)
            blocks = slice(begin // BLOCK, block_count(end, BLOCK))
            add = partial(add_wide, widths=widths[blocks])
            means = partial(add_means, norms=norms[blocks], widths=widths[blocks])
            held = [rank_codes[begin:end] for rank_codes in operands]
            codes[begin:end], scales[blocks] = add_part(
                request, form, place, held, norms[blocks], end - begin, begin, add, means)
    return codes, scales


def dequantize(form, codes, scales, widths, op, call, first_value=0):
    """float32 values of signed codes."""
    count = len(codes)
    top = per_value(steps_of(widths), count)
    return linear_values(form, codes, per_value(norms_of(scales), count), top, op, call,
                         first_value)
