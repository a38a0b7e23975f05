"""The least square error that a direct allreduce of so many bits can have: rate-distortion theory.

Ranks' values are c + z_r: c is what all ranks have in common, z_r is independent from rank to rank.
Given for free, to every sender and every reader: c; the scales below; a reader's own values; shared
random numbers. What is left is z_r, in two hops. Rates are in nats, per value.

First hop. Of independent z_r with a message each, errors of the mean add: sum of e_r / n^2, and a
message of R nats leaves e >= h exp(-2 R), where h is the entropy power: the variance if z is
Gaussian, less if not (Shannon's lower bound).

Second hop. The owner encodes U = z_o / n + V, its own values and its estimate V of the others'. An
output that R nats select is at least N(U) exp(-2 R) away. N(U) is bounded from below by the mutual
information of V and U, which is at least that of the others' true sum W and U; and W is estimated
from U no better than linearly, else its entropy would be larger than it is. In units of s, the
variance of z_r / n, with k = n - 2 others (a reader knows itself), e = epsilon s and shape h / s:

    N(U) >= shape^2 (1 + k (1 - epsilon)) / (1 + k epsilon (1 - epsilon))

Bits go where they help most, over blocks and hops: Lagrange's dual, which is a lower bound whatever
the multiplier is. docs/results/adaptive.md says what this does not cover.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .data import BLOCK

_BIN = 0.02  # of a histogram, in units of a block's standard deviation
_EPSILONS = np.exp(np.linspace(-26, 0, 521))
_LEVELS = np.exp(np.linspace(-26, 6, 641))


@dataclass(frozen=True)
class Parts:
    """What the limits are made of, for each block of 128; variances are of one value."""

    counts: np.ndarray  # values
    between: np.ndarray  # variance between ranks
    energy: np.ndarray  # mean square of a rank's value
    mean_energy: np.ndarray  # mean square of the mean
    shape: np.ndarray  # entropy power of z over its variance
    dense_counts: np.ndarray  # values that no rank has as zero: the shape is of these
    dense_between: np.ndarray


def parts_of(data, rank_count):
    """Parts of the first ranks; shapes come from all ranks of the data, whose mean is nearer c."""
    part = data.of_ranks(rank_count)
    dense = data.is_value & np.all(data.inputs != 0, axis=0)
    between = np.square(part.inputs - part.exact).sum(axis=0) / (rank_count - 1)
    dense_between = _means(between, dense)
    deviations = (data.inputs - data.exact) * (data.rank_count / (data.rank_count - 1))**0.5
    powers = np.minimum(_powers(data, dense, deviations, rank_count),
                        _powers(data, dense, data.inputs.astype(np.float64), rank_count))
    shape = powers / np.where(dense_between > 0, dense_between, np.inf)
    return Parts(_sums(data.is_value), _means(between, data.is_value), *energies_of(part),
                 np.minimum(shape, 1), _sums(dense), dense_between)


def energies_of(data):
    """(blocks) mean squares of ranks' values and of their mean."""
    squares = np.square(data.inputs, dtype=np.float64).mean(axis=0)
    return _means(squares, data.is_value), _means(data.exact**2, data.is_value)


def _sums(values):
    return values.reshape(-1, BLOCK).sum(axis=1)


def _means(values, chosen):
    return _sums(np.where(chosen, values, 0)) / np.maximum(_sums(chosen), 1)


def _powers(data, dense, rows, rank_count):
    """(blocks) entropy power of the first rows, given the scale of each block and rank.

    The density is one for each tensor, of values over their own scale, by a histogram; its finite
    sample makes it too small rather than too large. x = c + z and x less the ranks' mean, of the
    same variance as z, both have at least the entropy of z: the smaller is nearer to it.
    """
    squares = np.stack([_means(row**2, dense) for row in rows])  # (ranks, blocks)
    live = squares.min(axis=0) > 0
    found = np.where(live, np.exp(np.log(np.where(live, squares, 1))[:rank_count].mean(axis=0)), 0)
    unit = rows / np.repeat(np.sqrt(np.where(live, squares, 1)), BLOCK, axis=1)
    for number, piece in enumerate(data.tensors()):
        chosen = (dense & np.repeat(live, BLOCK))[piece]
        if chosen.any():
            found[data.tensor_of_block == number] *= entropy_power(unit[:, piece][:, chosen])
    return found


def entropy_power(values):
    """exp(2 h) / (2 pi e) of a sample's density, by a histogram; 1 for a standard Gaussian."""
    counts = np.unique(np.floor(values / _BIN), return_counts=True)[1]
    share = counts / counts.sum()
    entropy = -np.sum(share * np.log(share)) + np.log(_BIN)
    return float(np.exp(2 * entropy) / (2 * np.pi * np.e))


def second_hop_power(epsilon, others):
    """The bound on N(U) above, for shape 1."""
    return (1 + others * (1 - epsilon)) / (1 + others * epsilon * (1 - epsilon))


@lru_cache(maxsize=None)
def _dual(others, shape):
    """For each of _LEVELS: min over epsilon and the second hop's error of
    errors + 2 level * nats, in units of s."""
    level = _LEVELS[:, None]
    epsilon = _EPSILONS if others else np.ones(1)
    power = shape**2 * second_hop_power(epsilon, others)
    first = others * epsilon + level * np.maximum(np.log(shape / epsilon), 0) * (others > 0)
    second = np.minimum(level, power) + level * np.maximum(np.log(power / level), 0)
    return (first + second).min(axis=1)


def least_error(variances, counts, rank_count, bits, shapes=None):
    """Square error, summed over values, that no direct allreduce goes below.

    bits: up and down together, summed over values. variances: of z, one for each block of so many
    values. shapes: 1 for Gaussian values, the default.
    """
    shapes = np.ones(len(variances)) if shapes is None else np.floor(100 * shapes) / 100
    own = (variances > 0) & (counts > 0) & (shapes > 0)
    s, counts, shapes = variances[own] / rank_count**2, counts[own], shapes[own]
    nats = bits * np.log(2)
    tables = {shape: _dual(rank_count - 2, shape) for shape in np.unique(shapes).tolist()}

    def bound(log_level):
        found = -2 * np.exp(log_level) * nats
        for shape, table in tables.items():
            chosen = shapes == shape
            at = np.exp(log_level - np.log(s[chosen]))
            # The dual is concave: between two levels the straight line is below it.
            found += np.sum(counts[chosen] * s[chosen] * np.interp(at, _LEVELS, table))
        return found

    return _largest(bound, np.log(s.max()) - 25, np.log(s.max()) + 5) if len(s) else 0.0


def _largest(concave, low, high):
    """The largest value between low and high, to a grid's fineness."""
    grid = np.linspace(low, high, 200)
    best = int(np.argmax([concave(one) for one in grid]))
    fine = np.linspace(grid[max(best - 1, 0)], grid[min(best + 1, 199)], 100)
    return float(max(concave(one) for one in fine))


def ideal_error(parts, rank_count, bits, unbiased=False):
    """Square error, summed over values, of ideal codes that are given no more than our formats.

    Blocks' energies are free, everything else is sent: endless Gaussian codebooks have this error
    whatever the values' distribution is (Lapidoth, 1997). An owner has its own values exactly. An
    unbiased code of R nats has variance / (exp(2 R) - 1) where a biased one has exp(-2 R).
    """
    up = parts.energy * (rank_count - 1) / rank_count**2
    variances, counts = np.concatenate([up, parts.mean_energy]), np.tile(parts.counts, 2)
    return filled(variances, counts, bits, unbiased)


def unbiased_error(variances, level):
    """Where error's and half the nats' derivatives have the ratio `level`, nats being those of an
    unbiased code: log(1 + variance / error) / 2."""
    below = np.sqrt(variances**2 + 4 * level * variances) + variances
    return np.divide(2 * level * variances, below, out=np.zeros(len(below)), where=below > 0)


def filled(variances, counts, bits, unbiased=False):
    """Square error of independent Gaussian values in `bits`: reverse water-filling."""
    live = (variances > 0) & (counts > 0)
    variances, counts = variances[live], counts[live]

    def at(log_level):
        level = np.exp(log_level)
        if unbiased:
            error = unbiased_error(variances, level)
            rate = np.log1p(variances / error) / 2
        else:
            error = np.minimum(variances, level)
            rate = np.log(variances / error) / 2
        return np.sum(counts * error), np.sum(counts * rate) / np.log(2)

    low, high = np.log(variances.max()) - 50, np.log(variances.max()) + 25
    for _ in range(60):  # the rate falls as the level rises
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle)[1] > bits else (low, middle)
    return float(at(high)[0])
