"""Golomb-Rice codes in messages of a fixed size (FORMAT.md section 20)."""

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np

from .adaptive import BLOCK, GRANULE, SLICE_ALIGNMENT, groups_of
from .block_norm import block_count, norm_codes, norms_of
from .correlated import group_size
from .floats import NAN_PATTERN, bits, float32_of, ieee
from .hierarchy import add_part
from .quantize import quantize_bits
from .wide import reencode_bits

CELL = 32
POISONED, ZEROS = 14, 15  # parameters without codes
_LEAST_STEP, _LARGEST_STEP = 0x0080, 0x7E80
_UNARY_BITS = 96  # of a cell, at most
_NAN = float32_of(NAN_PATTERN["float32"])


def root_rounded_up(v):
    """The least integer whose square is at least v."""
    root = math.isqrt(v)
    return root + (root * root < v)


def cells_of(value_count):
    """Cells of a group of so many values."""
    return -(-value_count // CELL)


def head_words(cells):
    """Words before the planes: the step and the parameters."""
    return 1 + -(-cells // 8)


def planes_of(mean_bits, blocks, group_count, group_values, is_sum):
    """P: planes of each of the groups that share so many blocks."""
    m, cells = int(2 * mean_bits), cells_of(group_values)
    planes = (64 * m + (75 if is_sum else -27)) * blocks // 128 // group_count
    least = (32 * head_words(cells) + 32 * cells + -(-group_values // 128)
             + root_rounded_up(180 * group_values) + 63)
    return max(planes, -(-least // 128))


def margin_of(form, is_sum, rank):
    """The factor of the margin: 12 where all values of a word are rounded independently."""
    member, count = (form.node, form.node_count) if is_sum else (rank, form.rank_count)
    if form.rounding != "correlated" or count == 0:
        return 12
    size = group_size(member, count)
    return 12 if size & (size - 1) == 0 else 45


def symbols_of(magnitudes, negative):
    """z of codes."""
    return 2 * magnitudes - ((magnitudes > 0) & ~negative)


@dataclass(frozen=True)
class Neighbours:
    """What codes may become with a step; arrays of the shape of the values."""

    near: np.ndarray
    far: np.ndarray
    distance: np.ndarray  # of the value from the near one, in steps; float32
    parts: np.ndarray  # the magnitude in 1/256 of a step, rounded up


@ieee
def neighbours_of(values, step_code, nearest):
    """The Neighbours of float32 values."""
    t = np.minimum(np.abs(values) * (np.float32(1) / norms_of(step_code)), np.float32(8191))
    negative, low = np.signbit(values), t.astype(np.int64)
    g = t - low.astype(np.float32)
    if nearest:
        away = np.where(negative, g > np.float32(0.5), g >= np.float32(0.5))
        z = symbols_of(low + away, negative)
        return Neighbours(z, z, np.zeros_like(g), 128 * z)
    parts = np.ceil(t * np.float32(256)).astype(np.int64)
    return Neighbours(symbols_of(low, negative), symbols_of(low + (g > 0), negative), g, parts)


def rounded(values, neighbours, r):
    """z of values: the far neighbour with the chance of the distance. r: as for linear codes."""
    chance = np.rint(neighbours.distance * np.float32(2**23)).astype(np.int64)
    threshold = np.where(np.signbit(values), r, r ^ np.uint64(2**23 - 1)).astype(np.int64)
    return np.where(threshold < chance, neighbours.far, neighbours.near)


def parameters_of(z):
    """p of cells of z, shape (cells, 32): the least with the shortest cell."""
    p = np.zeros(len(z), dtype=np.int64)
    for _ in range(13):
        p += (((z >> p[:, None]) + 1) // 2).sum(axis=1) > 32
    return p


def needed(cells, step_code, nearest, margin, stride):
    """(need, N) of a look at every stride-th of the cells, shape (cells, 32)."""
    looked = neighbours_of(cells[::stride], step_code, nearest)
    parts = looked.parts.sum(axis=1)
    p = sum((parts > 8192 << q).astype(np.int64) for q in range(13))
    counted = parts > 0
    low = looked.near >> p[:, None]
    more = (looked.far >> p[:, None]) - low
    chance = np.ceil(looked.distance * np.float32(256)).astype(np.int64)
    T = int((32 * (1 + p) + low.sum(axis=1))[counted].sum())
    E, D = int((chance * more)[counted].sum()), int((more * more)[counted].sum())
    need = stride * T + -(-stride * E // 256) + root_rounded_up(margin * stride * D)
    return need, stride * 32 * int(counted.sum())


class _Search:
    """The steps known to fit and not to, and the one to look at next."""

    def __init__(self, least, first, slope):
        self.below, self.fitting, self.step, self.slope = least - 1, _LARGEST_STEP + 1, first, slope
        self.last, self.looks = None, 0

    @property
    def closed(self):
        return self.fitting - self.below == 1

    def take(self, need, N, room):
        """(whether the step fits closely enough, whether it is near that)."""
        slack = N >> 6
        if need <= room:
            self.fitting = self.step
        else:
            self.below = self.step
        excess = need + (slack >> 3) - room
        self._take_slope(need, N)
        self.last, self.looks = (need, self.step), self.looks + 1
        found = need <= room and room - need <= slack
        if self.looks < 7 and N > 0:
            slope_bits, slope_codes = self.slope
            step = self.step + -(-excess * slope_codes // slope_bits)
            self.step = min(max(step, self.below + 1), self.fitting - 1)
        else:
            self.step = (self.below + self.fitting) // 2
        return found, abs(excess) <= N >> 4

    def _take_slope(self, need, N):
        fewer, further = (0, 0) if self.last is None else (
            self.last[0] - need, self.step - self.last[1])
        if fewer * further > 0:
            self.slope = abs(fewer), abs(further)
        elif self.slope is None or self.slope[0] == 0:
            self.slope = N, 256


def step_of(cells, room, nearest, margin):
    """The code of a group's step; beyond 0x7e80 if none fits. cells: not all 0."""
    largest = np.abs(cells).max()
    least = max(int(norm_codes(bits(largest / np.float32(8190)))), _LEAST_STEP)
    first = min(max(int(norm_codes(bits(largest))) - 640, least), _LARGEST_STEP)
    slope = None
    if len(cells) >= 64:
        search, near = _Search(least, first, None), False
        while not (near or search.closed):
            near = search.take(*needed(cells, search.step, nearest, margin, 8), room)[1]
        first = min(search.fitting if search.closed else search.step, _LARGEST_STEP)
        slope = search.slope
    search, found = _Search(least, first, slope), False
    while not (found or search.closed):
        found = search.take(*needed(cells, search.step, nearest, margin, 1), room)[0]
    return search.fitting


def encode(values, planes, nearest, margin, r):
    """The words of a group of float32 values; r: of each value, as for linear codes."""
    cells = np.zeros((cells_of(len(values)), CELL), dtype=np.float32)
    cells.reshape(-1)[:len(values)] = values
    padded_r = np.zeros(cells.size, dtype=np.uint64)
    padded_r[:len(values)] = r
    poisoned = ~np.isfinite(cells).all(axis=1)
    cells[poisoned] = 0
    if not cells.any():
        return _packed(0, poisoned, np.zeros(cells.shape, dtype=np.int64), planes)
    room = 32 * (4 * planes - head_words(len(cells))) - 63
    step = step_of(cells, room, nearest, margin)
    if step > _LARGEST_STEP:
        return _packed(0, np.ones(len(cells), dtype=bool), np.zeros(cells.shape, np.int64), planes)
    neighbours = neighbours_of(cells, step, nearest)
    z = rounded(cells, neighbours, padded_r.reshape(cells.shape))
    p, coded = parameters_of(z), z.any(axis=1)
    length = (32 * (1 + p) + (z >> p[:, None]).sum(axis=1))[coded].sum()
    return _packed(step, poisoned, z if length <= room else neighbours.near, planes)


def _packed(step, poisoned, z, planes):
    p = np.where(z.any(axis=1), parameters_of(z), ZEROS)
    p = np.where(poisoned, POISONED, p)
    words = np.zeros(4 * planes, dtype=np.uint32)
    words[0] = step
    for cell, parameter in enumerate(p):
        words[1 + cell // 8] |= np.uint32(int(parameter) << 4 * (cell % 8))
    place, unary = head_words(len(z)), []
    for row, parameter in zip(z, p):
        if parameter >= POISONED:
            continue
        for b in range(parameter):
            words[place + b] = np.uint32(((row >> b & 1) << np.arange(CELL)).sum())
        place += int(parameter)
        for symbol in row:
            unary += [0] * int(symbol >> parameter) + [1]
    unary += [0] * (-len(unary) % 64)
    for k, group in enumerate(np.array(unary, dtype=np.uint64).reshape(-1, 64)):
        pattern = sum(int(bit) << at for at, bit in enumerate(group))
        words[4 * planes - 2 * k - 2] = pattern % 2**32
        words[4 * planes - 2 * k - 1] = pattern >> 32
    return words


@ieee
def decode(words, value_count):
    """float32 values of a group's words, whatever these are."""
    cells, step = cells_of(value_count), norms_of(np.uint32(words[0]) & np.uint32(0xFFFF))
    values = np.zeros((cells, CELL), dtype=np.float32)
    pairs = np.asarray(words, dtype=np.uint32).reshape(-1, 2)[::-1]
    unary = (pairs[:, :, None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)).reshape(-1)
    place, begin = head_words(cells), 0
    for cell in range(cells):
        p = int(words[1 + cell // 8]) >> 4 * (cell % 8) & 15
        if p == ZEROS:
            continue
        if p == POISONED:
            values[cell] = _NAN
            continue
        ends = np.flatnonzero(unary[begin:begin + _UNARY_BITS])[:CELL]
        if place + p > len(words) or len(ends) < CELL:
            values[cell:] = _NAN
            break
        z = np.diff(ends, prepend=-1) - 1 << p
        for b in range(p):
            z |= (int(words[place + b]) >> np.arange(CELL) & 1) << b
        place, begin = place + p, begin + int(ends[-1]) + 1
        k = np.where(z % 2 == 1, (z + 1) // 2, -(z // 2))
        values[cell] = k.astype(np.float32) * step
    return values.reshape(-1)[:value_count]


def quantize(form, call, rank, values, planes, first_value=0):
    """The words of one rank's values that follow each other in the call."""
    return encode(values, planes, form.nearest, margin_of(form, False, rank),
                  quantize_bits(form, call, rank, first_value, len(values)))


@dataclass(frozen=True)
class _Group:
    """A group of an allreduce: (first element, count) of its granules; planes up and down."""

    runs: tuple
    planes: int
    planes_down: int

    @property
    def value_count(self):
        return sum(count for _, count in self.runs)

    def of(self, per_element):
        return np.concatenate([per_element[begin:begin + count] for begin, count in self.runs])

    def bits_of(self, draw):
        """draw(first element, count) for each granule."""
        return np.concatenate([draw(*run) for run in self.runs])

    def quantize(self, form, call, rank, values):
        r = self.bits_of(lambda begin, count: quantize_bits(form, call, rank, begin, count))
        return encode(self.of(values), self.planes, form.nearest, margin_of(form, False, rank), r)

    def add(self, whole, form, call, owner, operands, *_, hop=1, **__):
        """(words, no scales) of the sum: that of a node lies as codes do; as hierarchy asks."""
        r = self.bits_of(lambda begin, count: reencode_bits(form, call, owner, hop, begin, count))
        planes = self.planes_down if form == whole else self.planes
        return encode(sum_of([decode(words, self.value_count) for words in operands]), planes,
                      form.nearest, margin_of(form, True, owner), r), None


@ieee
def sum_of(terms):
    """float32 sums from +0.0 on, in order."""
    return reduce(lambda total, term: total + term, terms, np.zeros(len(terms[0]), np.float32))


def groups_of_call(form, value_count):
    """Each group of an allreduce."""
    groups = groups_of(value_count, form.rank_count, form.mean_bits)
    of_call = (block_count(value_count, BLOCK), len(groups.granules),
               min(groups.group_granules * GRANULE, value_count))
    return [_Group(tuple((granule * GRANULE, min(GRANULE, value_count - granule * GRANULE))
                         for granule in granules),
                   *(planes_of(form.mean_bits, *of_call, is_sum) for is_sum in (False, True)))
            for granules in groups.granules]


@ieee
def allreduce(request, form, places, values):
    """(words of the sums in the order of groups, float32 values) of an allreduce.

    values: float32 of each rank; places: as allreduce.places_of gives them.
    """
    groups, words = groups_of_call(form, len(values[0])), []
    decoded = np.zeros(len(values[0]), dtype=np.float32)
    for number, group in enumerate(groups):
        place = places[number // -(-len(groups) // len(places))]  # a part is whole groups
        held = [group.quantize(form, request.call, rank, x) for rank, x in enumerate(values)]
        add = lambda *given, **more: group.add(form, *given, **more)
        sums, _ = add_part(request, form, place, held, None, group.value_count, 0, add)
        words.append(sums)
        of_group, done = decode(sums, group.value_count), 0
        for begin, count in group.runs:
            decoded[begin:begin + count] = of_group[done:done + count]
            done += count
    if request.op == "mean":
        decoded = decoded / np.float32(form.rank_count)
    decoded = np.where(np.isnan(decoded), _NAN, decoded)
    return np.concatenate(words) if words else np.uint32([]), decoded


def decoded_slice(form, call, rank, values, first_value):
    """What a slice's codes stand for. values: float32; its groups are consecutive."""
    decoded = [np.zeros(0, dtype=np.float32)]
    for begin in range(0, len(values), SLICE_ALIGNMENT):
        of_group = values[begin:begin + SLICE_ALIGNMENT]
        planes = planes_of(form.mean_bits, block_count(len(of_group), BLOCK), 1, len(of_group),
                           False)
        words = quantize(form, call, rank, of_group, planes, first_value + begin)
        decoded.append(decode(words, len(of_group)))
    return np.concatenate(decoded)
