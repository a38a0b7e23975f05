"""The rule itself, in integers: which block gets how many bits, from the agreed norms alone.

Norms are the 16-bit codes of docs/FORMAT.md, section 4. A code is 128 log2 of its norm up to a
constant and to 0.09 octaves, so that "gain times a power of the norm is at least a threshold"
is "code is at least a threshold plus a constant of the width". All ranks have the same codes, so
they have the same widths: no floating-point operation takes part.
"""

import heapq
import math
from dataclasses import dataclass

import numpy as np

POISONED = 0x7FFF
_LARGEST_FINITE = 0x7F80
CODES_PER_OCTAVE = 128


def top_of(width):
    """The largest code of `width` bits; there are as many steps below the norm."""
    return 2**(width - 1) - 1


@dataclass(frozen=True)
class Rule:
    """Gains N^(2 exponent) (1/s^2 - 1/s'^2) per bit for the next of `widths`.

    exponent: 1 makes the square error of the whole least, 0 leaves all widths equal.
    approximate: 4^-w in place of 1/s^2.
    one_step: no gains; a block gets as many bits as its norm needs in steps of one size.
    """

    exponent: float = 0.5
    widths: tuple = (2, 3, 4, 5, 6, 7, 8)
    approximate: bool = False
    one_step: bool = False

    @property
    def steps(self):
        """Bits from each width to the next."""
        return [b - a for a, b in zip(self.widths, self.widths[1:])]

    @property
    def offsets(self):
        """Codes by which the threshold of each further width is above that of the first."""
        if self.one_step:
            tops = [top_of(width) for width in self.widths[:-1]]
            return [round(CODES_PER_OCTAVE * math.log2(top / tops[0])) for top in tops]
        error = [4.0**-width if self.approximate else top_of(width)**-2.0 for width in self.widths]
        gains = [(a - b) / step for a, b, step in zip(error, error[1:], self.steps)]
        scale = CODES_PER_OCTAVE / max(2 * self.exponent, 2**-10)
        return [round(-scale * math.log2(gain / gains[0])) for gain in gains]


def codes_of(largest):
    """16-bit codes, rounded up, of the blocks' largest magnitudes (float32)."""
    patterns = np.ascontiguousarray(largest, np.float32).view(np.uint32).astype(np.int64)
    return np.where(patterns >= 0x7F800000, POISONED, (patterns + 0xFFFF) >> 16)


def norms_of(codes):
    """float32 norms of codes; NaN for poisoned blocks."""
    norms = (np.asarray(codes) << 16).astype(np.uint32).view(np.float32).copy()
    norms[codes == _LARGEST_FINITE] = np.finfo(np.float32).max
    norms[codes > _LARGEST_FINITE] = np.nan
    return norms


def allocate(codes, budget, rule):
    """Widths of blocks; their sum is at most `budget`, and equal to it if widths differ by 1.

    Blocks whose norm is 0 or poisoned get width 0, the others the least width and then more by the
    rule; what the threshold leaves over goes to blocks just below it, in the order of blocks. Less
    is spent only if every block has the largest width. Raises ValueError if the least width is too
    much already.
    """
    codes = np.asarray(codes, np.int64)
    live = (codes > 0) & (codes < POISONED)
    widths = np.where(live, rule.widths[0], 0)
    left = int(budget) - int(widths.sum())
    if left < 0:
        raise ValueError(f"{int(live.sum())} blocks of {rule.widths[0]} bits exceed the budget of "
                         f"{int(budget)} bits a place; use a mean of {rule.widths[0]} or more")
    threshold = _threshold(np.sort(codes[live]), left, rule)
    extra = np.zeros(len(codes), np.int64)
    for offset, step in zip(rule.offsets, rule.steps):
        extra += np.where(live & (codes >= threshold + offset), step, 0)
    left -= int(extra.sum())
    asked = np.zeros(len(codes), np.int64)
    for offset, step in zip(rule.offsets, rule.steps):
        asked += np.where(live & (codes == threshold - 1 + offset), step, 0)
    tied = np.flatnonzero(asked)
    granted = tied[np.cumsum(asked[tied]) <= left]
    extra[granted] += asked[granted]
    return widths + extra


def _threshold(codes, left, rule):
    """The least threshold for which what the sorted codes ask for is at most `left`."""
    def asked(threshold):
        return sum(step * (len(codes) - int(np.searchsorted(codes, threshold + offset)))
                   for offset, step in zip(rule.offsets, rule.steps))

    low, high = -max(rule.offsets) - 1, POISONED + 1
    if asked(low) <= left:
        return low
    while high - low > 1:  # asked(low) > left >= asked(high)
        middle = (low + high) // 2
        low, high = (middle, high) if asked(middle) > left else (low, middle)
    return high


def allocate_tensors(codes, tensor_of_block, budget, rule):
    """Widths that are equal inside a tensor, by the same gains summed over its blocks.

    What per-tensor policies can do at most; in floating point, since nothing agrees on it.
    """
    norms = norms_of(codes).astype(np.float64)
    live = (codes > 0) & (codes < POISONED)
    energy = np.bincount(tensor_of_block, np.where(live, norms, 0)**(2 * rule.exponent))
    block_counts = np.bincount(tensor_of_block, live).astype(np.int64)
    chosen = np.zeros(len(energy), np.int64)
    left = int(budget) - int(block_counts.sum()) * rule.widths[0]

    def offer(tensor):
        place = chosen[tensor]
        if place + 1 == len(rule.widths) or not block_counts[tensor]:
            return None
        before, after = rule.widths[place:place + 2]
        gain = energy[tensor] * (top_of(before)**-2.0 - top_of(after)**-2.0)
        cost = int(block_counts[tensor]) * (after - before)
        return (-gain / cost, tensor, cost)

    queue = [one for one in map(offer, range(len(energy))) if one]
    heapq.heapify(queue)
    while queue:
        _, tensor, cost = heapq.heappop(queue)
        if cost > left:
            continue
        left -= cost
        chosen[tensor] += 1
        following = offer(tensor)
        if following:
            heapq.heappush(queue, following)
    return np.where(live, np.asarray(rule.widths)[chosen[tensor_of_block]], 0)
