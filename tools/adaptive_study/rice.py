"""Golomb-Rice codes in messages of a fixed size: a two-shot allreduce in NumPy.

A call is dealt to groups, granule by granule. All values of a group have one step, on which the
ranks agree: the largest of those that each rank's values need. x becomes k = floor(x / step + u),
u uniform in [0, 1). Cells of a few values have a parameter p each, that of the least length:

    length of a value  (z >> p) + 1 + p,  z = 2k - 1 if k > 0, else -2k
    length of a cell   4 bits for p, and those of its values unless all codes are 0

Rounding is unbiased only if the step does not depend on u, but lengths do. So the step is the
least for which codes do not fit with a chance below 2^-32, over u. If they do not fit, all values
of the group go to their neighbours towards 0, which always fit. docs/results/adaptive.md has the
argument.
"""

import math
from dataclasses import dataclass

import numpy as np

from .codecs import Outcome
from .data import BLOCK
from .rule import CODES_PER_OCTAVE, codes_of, norms_of

LOG_CHANCE = 32 * math.log(2)  # -log of the chance that the codes of a group do not fit
PARAMETER_BITS, STEP_BITS = 4, 16
GRANULE, GRANULE_BITS = 1024, 16  # the length of a granule, so that granules are read in parallel
PARAMETERS = range(15)  # 15 says that all codes of the cell are 0
_FINENESS = 256  # of chances: four values share a random word, whose bytes are independent
_VARIANCE = 0.1  # of a value's length, about; another one only makes the margin larger
_LEAST_STEP, _LARGEST_STEP = 128, 0x7F7F  # codes of 2^-126 and of the largest finite norm
_OCTAVES_DOWN, _OCTAVES_UP = 14, 6  # of a step beside the largest value: codes are below 2^14 + 1


@dataclass(frozen=True)
class Groups:
    """Which group each cell is in, and how many bits the codes of a group may have."""

    of_cell: np.ndarray
    value_counts: np.ndarray  # of each group
    budgets: np.ndarray

    def sums(self, of_cells):
        return np.bincount(self.of_cell, of_cells, minlength=len(self.budgets))


def groups_of(value_count, bits, cell, group_blocks):
    """Granules dealt out as cards; messages are whole words of 32 bits."""
    granule = np.arange(0, value_count, cell) // GRANULE
    count = -(-value_count // (group_blocks * BLOCK))
    of_cell = granule % count
    values = np.bincount(of_cell, minlength=count) * cell
    granules = np.bincount(np.unique(granule) % count, minlength=count)
    words = np.floor(values * bits / 32)
    return Groups(of_cell, values, 32 * words - STEP_BITS - GRANULE_BITS * granules)


def symbols_of(codes):
    """0, 1, 2, 3, 4 for codes 0, 1, -1, 2, -2."""
    return np.where(codes > 0, 2 * codes - 1, -2 * codes)


def lengths_of(codes):
    """Bits of each cell of integer codes (cells, values), its parameter included."""
    symbols, size = symbols_of(codes).astype(np.int32), codes.shape[1]
    least = np.min([(symbols >> p).sum(axis=1) + size * (1 + p) for p in PARAMETERS
                    if p == 0 or symbols.max() >> p], axis=0)
    return PARAMETER_BITS + np.where(symbols.any(axis=1), least, 0)


def likely_lengths(ratios, rate):
    """Of each cell of ratios x / step (cells, values): at least (1 / rate) log E exp(rate length).

    The sum over a group's cells + LOG_CHANCE / rate is a length that is exceeded with a chance of
    at most exp(-LOG_CHANCE) (Chernoff), for any rate > 0. It never grows with the step, since a
    length does not fall where a code moves away from 0.
    """
    size = ratios.shape[1]
    magnitudes = np.abs(ratios)
    low = np.floor(magnitudes).astype(np.int32)
    # The chance of the upper neighbour, in whole bytes of a random word, rounded up.
    chance = np.ceil((magnitudes - low) * _FINENESS).astype(np.int32)
    positive = (ratios > 0).astype(np.int32)
    lower, upper = np.where(low > 0, 2 * low - positive, 0), 2 * (low + 1) - positive
    table = _log_moments(rate)
    expected = (lower + chance / _FINENESS * (upper - lower)).mean(axis=1)
    nearest = np.log2(np.maximum(expected, 1)).astype(np.int32)
    found = np.full(len(ratios), np.inf)
    for shift in (-1, 0, 1):  # no other is better, as a test shows
        p = np.clip(nearest + shift, PARAMETERS[0], PARAMETERS[-1])
        quotients = lower >> p[:, None]
        moves = (upper >> p[:, None]) - quotients
        sums = quotients.sum(axis=1) + table[moves * (_FINENESS + 1) + chance].sum(axis=1)
        found = np.minimum(found, sums + size * (1 + p))
    return PARAMETER_BITS + np.where(magnitudes.any(axis=1), found, 0)


def _log_moments(rate):
    """Flat table by move (0, 1, 2) and chance: (1 / rate) log E exp(rate move)."""
    chances = np.arange(_FINENESS + 1) / _FINENESS
    return np.concatenate([np.log1p(chances * np.expm1(rate * move)) / rate for move in range(3)])


def steps_of(codes_of_steps, groups):
    """(cells, 1) float64."""
    return norms_of(codes_of_steps).astype(np.float64)[groups.of_cell][:, None]


def ratios_of(cells, codes_of_steps, groups):
    """cells / step; 0 where the step is 0, which says that all values of the group are 0."""
    steps = steps_of(codes_of_steps, groups)
    return np.divide(cells, steps, out=np.zeros(cells.shape), where=steps > 0)


def fits(cells, codes_of_steps, groups):
    """Of each group: whether codes of cells (cells, values) fit but for the chance."""
    largest = groups.value_counts.max()
    rate = min(1.0, math.sqrt(2 * LOG_CHANCE / (_VARIANCE * largest)))
    lengths = likely_lengths(ratios_of(cells, codes_of_steps, groups), rate)
    return groups.sums(lengths) + LOG_CHANCE / rate <= groups.budgets


def least_steps(cells, groups, at_least):
    """16-bit code of the least step of each group, not below at_least, with which codes fit."""
    largest = np.zeros(len(groups.budgets))
    np.maximum.at(largest, groups.of_cell, np.abs(cells).max(axis=1))
    tops = codes_of(largest)
    own = np.maximum(tops - _OCTAVES_DOWN * CODES_PER_OCTAVE, _LEAST_STEP)
    low = np.maximum(at_least, np.where(tops > 0, own, 0))
    if fits(cells, low, groups).all():
        return low
    high = np.maximum(low, np.minimum(tops + _OCTAVES_UP * CODES_PER_OCTAVE, _LARGEST_STEP))
    if not fits(cells, high, groups).all():
        raise ValueError(f"codes do not fit {groups.budgets} bits with any step")
    below = low - 1  # does not fit, or is not asked for
    while np.any(high - below > 1):
        middle = (below + high) // 2
        inside = np.maximum(middle, low)
        fit = fits(cells, inside, groups)
        below, high = np.where(fit, below, inside), np.where(fit, inside, high)
    return high


def agreed_steps(ranks, groups):
    """16-bit code of each group's step: the largest of those that the ranks' values need."""
    steps = np.zeros(len(groups.budgets), np.int64)
    for cells in ranks:
        steps = least_steps(cells, groups, steps)
    return steps


def encode(cells, codes_of_steps, groups, u):
    """(codes of cells, which groups' values all went towards 0)."""
    ratios = ratios_of(cells, codes_of_steps, groups)
    codes = np.floor(ratios + u).astype(np.int64)
    over = groups.sums(lengths_of(codes)) > groups.budgets
    codes = np.where(over[groups.of_cell][:, None], np.trunc(ratios).astype(np.int64), codes)
    return codes, over


@dataclass(frozen=True)
class Rice:
    """Codes of `up` and `down` bits a value, everything included.

    own_steps: ranks do not agree on steps, each sends its own; owners add products.
    subtractive: readers take off the u of the rounding down; zeros do not stay.
    """

    up: float
    down: float
    cell: int = 32
    group_blocks: int = 256
    own_steps: bool = False
    subtractive: bool = False

    def run(self, data, draws):
        value_count = data.inputs.shape[1]
        ranks = data.inputs.reshape(data.rank_count, -1, self.cell)
        groups = groups_of(value_count, self.up, self.cell, self.group_blocks)
        agreed = None if self.own_steps else agreed_steps(ranks, groups)
        sums, lowered = np.zeros(ranks.shape[1:]), 0
        for cells, u in zip(ranks, draws.up.reshape(ranks.shape)):
            steps = agreed_steps([cells], groups) if self.own_steps else agreed
            codes, over = encode(cells, steps, groups, u)
            sums, lowered = sums + codes * steps_of(steps, groups), lowered + over.sum()
        means = sums / data.rank_count
        groups = groups_of(value_count, self.down, self.cell, self.group_blocks)
        steps = agreed_steps([means], groups)
        u = draws.down.reshape(means.shape)
        codes, over = encode(means, steps, groups, u)
        levels = codes - u + 0.5 if self.subtractive else codes
        return Outcome((levels * steps_of(steps, groups)).reshape(-1), self.up, self.down,
                       {"lowered groups": int(lowered + over.sum())})
