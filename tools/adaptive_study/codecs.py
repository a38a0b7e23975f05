"""A two-shot allreduce with widths by block, in NumPy: errors as the format would make them.

Up: codes of all ranks by the agreed norm, rounded in strata across ranks, added by owners as
integers in full width. Down: the sum encoded once, each block by a scale of its own from its
largest sum. What differs from docs/FORMAT.md: random numbers come from NumPy, products with
scales are rounded once less.
"""

from dataclasses import dataclass, field

import numpy as np

from . import rotation
from .data import BLOCK
from .rule import POISONED, Rule, allocate, allocate_tensors, codes_of, norms_of, top_of

_SIDE_BITS = 16  # of a norm or a scale


@dataclass(frozen=True)
class Draws:
    """The random numbers of one call, the same for every scheme that is compared."""

    up: np.ndarray  # (ranks, values) float32 in [0, 1), stratified across ranks
    down: np.ndarray  # (values) float32 in [0, 1)
    seed: int


def draws_of(data, seed):
    random = np.random.default_rng([3, seed])
    shape = data.inputs.shape
    strata = np.argsort(random.random(shape, np.float32), axis=0).astype(np.float32)
    up = (strata + random.random(shape, np.float32)) / np.float32(shape[0])
    return Draws(np.minimum(up, np.float32(1 - 2**-24)), random.random(shape[1], np.float32), seed)


@dataclass(frozen=True)
class Outcome:
    """One scheme's mean of some data, and what it sends per value."""

    mean: np.ndarray
    bits_up: float  # per value, norms included
    bits_down: float
    extra: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Adaptive:
    """Widths by `rule` at a mean of `mean` bits up and `mean_down` down, side information on top.

    scope: whose budget is kept: "call", "slice" (each rank's fixed range of blocks), "tensor", or
        a number of blocks; "equal in tensors": widths of a whole tensor at a time, over the call;
        "none": `mean` bits for every block.
    down: "same" widths as up, "fixed" (mean_down everywhere), or "peaks": by the scales of the
        sums, inside each owner's range of words.
    step: "block" (the norm is the largest code) or "call" (one step for all blocks but those
        whose norm asks for more than the largest width has; the rule is then Rule(one_step=True)).
    rotate: 0, or how many values a Hadamard rotation has at most.
    """

    mean: float
    mean_down: float | None = None
    rule: Rule = Rule()
    scope: str | int = "call"
    down: str = "same"
    step: str = "block"
    rotate: int = 0
    block: int = BLOCK
    subtractive: bool = False

    def run(self, data, draws):
        x = data.inputs
        if self.rotate:
            rotated = rotation.Rotation(data.starts, self.rotate, draws.seed)
            x = rotated.forth(x)
        blocks = x.reshape(len(x), -1, self.block)
        codes = codes_of(np.abs(blocks).max(axis=2)).max(axis=0)
        widths = self._widths_up(codes, data)
        norms = self._norms_up(codes, widths)
        sums, unit = add(blocks, norms, widths, draws.up.reshape(blocks.shape))
        peaks = np.abs(sums).max(axis=1) * unit
        scales = codes_of(_round_up(peaks))
        ranges = ranges_of(widths, data.rank_count)
        widths_down = self._widths_down(widths, scales, ranges)
        mean = encode(sums * unit[:, None], norms_of(scales), widths_down,
                      draws.down.reshape(sums.shape), self.subtractive).reshape(-1)
        side = _SIDE_BITS / self.block
        places = len(codes)
        extra = {"widths": np.bincount(widths, minlength=9) / places,
                 "blocks of an owner": max(map(len, ranges)) * data.rank_count / places}
        return Outcome(rotated.back(mean) if self.rotate else mean,
                       self.mean + side, (self.mean_down or self.mean) + 2 * side, extra)

    def _widths_up(self, codes, data):
        if self.scope == "none":
            return np.where((codes > 0) & (codes < POISONED), int(self.mean), 0)
        if self.scope == "equal in tensors":
            return allocate_tensors(codes, data.tensor_of_block, self.mean * len(codes), self.rule)
        return np.concatenate([allocate(part, self.mean * len(part), self.rule)
                               for part in _parts(codes, self.scope, data)])

    def _norms_up(self, codes, widths):
        norms = norms_of(np.where(codes < POISONED, codes, 0)).astype(np.float64)
        if self.step == "block":
            return norms
        tops = np.array([top_of(max(width, 2)) for width in widths])
        steps = norms / tops
        return tops * np.maximum(steps, steps[widths < self.rule.widths[-1]].max(initial=0))

    def _widths_down(self, widths, scales, ranges):
        if self.down == "same":
            return widths
        if self.down == "fixed":
            return np.where(scales > 0, int(self.mean_down), 0)
        share = (self.mean_down or self.mean) / self.mean
        found = np.zeros(len(widths), np.int64)
        for part in ranges:
            # With fewer bits down than up a range of least widths has too few: the format could
            # not do this, and the study lets such a range have what it needs.
            least = self.rule.widths[0] * np.count_nonzero(scales[part])
            found[part] = allocate(scales[part], max(share * widths[part].sum(), least), self.rule)
        return found


def add(blocks, norms, widths, up):
    """(sums of the codes of all ranks (blocks, values), what a unit of them is of the mean)."""
    tops = np.array([top_of(max(width, 2)) for width in widths], np.float64)
    live = (widths > 0) & (norms > 0)
    factors = np.where(live, tops / np.where(live, norms, 1), 0).astype(np.float32)[:, None]
    limits = tops.astype(np.float32)[:, None]
    sums = np.zeros(blocks.shape[1:], np.float64)
    for row, u in zip(blocks, up):
        codes = row * factors
        codes += u
        np.floor(codes, out=codes)
        np.clip(codes, -limits, limits, out=codes)
        sums += codes
    return sums, np.where(live, norms / tops, 0) / len(blocks)


def encode(means, norms, widths, u, subtractive=False):
    """What is decoded from means (blocks, values) that were rounded by u to codes of `widths`."""
    tops = np.array([top_of(max(width, 2)) for width in widths], np.float64)
    live = (widths > 0) & (norms > 0)
    steps = np.where(live, norms / tops, 1)[:, None]
    codes = np.clip(np.floor(means / steps + u), -tops[:, None], tops[:, None])
    if subtractive:
        codes = codes - u + 0.5
    return np.where(live[:, None], codes * steps, 0)


def ranges_of(widths, rank_count):
    """The blocks of each owner, whose words up are equal parts of all words.

    A block belongs to the owner in whose range it begins.
    """
    begins = np.cumsum(widths) - widths
    edges = np.arange(1, rank_count) * widths.sum() / rank_count
    return np.split(np.arange(len(widths)), np.searchsorted(begins, edges))


def _parts(codes, scope, data):
    if scope == "call":
        return [codes]
    if scope == "slice":
        return np.array_split(codes, data.rank_count)
    if scope == "tensor":
        return np.split(codes, np.asarray(data.starts[1:-1]) // BLOCK)
    return np.split(codes, np.arange(scope, len(codes), scope))


def _round_up(values):
    """float32, at least the float64 value."""
    rounded = values.astype(np.float32)
    return np.where(rounded < values, np.nextafter(rounded, np.float32(np.inf)), rounded)
