"""Uniform levels whose codes take their entropy and no more: what a range coder would reach."""

from dataclasses import dataclass

import numpy as np

from .codecs import Outcome
from .data import BLOCK
from .limits import energies_of, unbiased_error

_OFFSETS = (1 / 8, 3 / 8, 5 / 8, 7 / 8)  # of levels, over which entropies are averaged


def dithered(values, steps, u):
    """values (.., blocks, BLOCK) to uniform levels a step apart, the random offset taken off."""
    live = np.where(steps > 0, steps, 1)[:, None]
    return np.where(steps[:, None] > 0, live * (np.floor(values / live + u) - u + 0.5), 0)


@dataclass(frozen=True)
class EntropyCoded:
    """Uniform levels whose codes take their entropy given the block's energy; steps by the energy.

    bits: of codes, up and down together; those down are counted for the exact mean, 0.005 to 0.024
        bits fewer than for the decoded one. own_exact: an owner does not quantize its own values.
    """

    bits: float
    own_exact: bool = False

    def run(self, data, draws):
        count, shape = data.rank_count, (-1, BLOCK)
        energy, mean_energy = energies_of(data)
        chosen = data.is_value.reshape(shape)
        blocks = data.inputs.reshape(count, *shape).astype(np.float64)
        exact = data.exact.reshape(shape)
        low, high = np.log(energy.max()) - 40, np.log(energy.max()) + 5
        for _ in range(15):
            middle = (low + high) / 2
            up = _steps(energy, np.exp(middle))
            down = _steps(mean_energy, np.exp(middle) / count)
            spent = entropy_of(blocks[:4], up, energy, chosen) + entropy_of(
                exact[None], down, mean_energy, chosen)
            low, high = (middle, high) if spent > self.bits else (low, middle)
        decoded = dithered(blocks, up, draws.up.reshape(blocks.shape))
        if self.own_exact:
            owner = np.arange(len(exact)) % count
            decoded[owner, np.arange(len(exact))] = blocks[owner, np.arange(len(exact))]
        mean = dithered(decoded.mean(axis=0), down, draws.down.reshape(shape)).reshape(-1)
        return Outcome(mean, self.bits / 2, self.bits / 2)


def _steps(energy, level):
    """Steps of blocks whose errors are those of the best unbiased codes."""
    return np.sqrt(12 * unbiased_error(energy, level))


def entropy_of(rows, steps, energy, chosen):
    """Bits a value, padding included, of the codes of rows (ranks, blocks, BLOCK)."""
    live = steps > 0
    ratio = np.sqrt(energy[live]) / steps[live]
    number = np.clip(np.rint(4 * np.log2(ratio)), -20, 43).astype(np.int64) + 20
    number = np.broadcast_to(number[:, None], (live.sum(), BLOCK))
    mask = chosen[live]
    found = 0.0
    for offset in _OFFSETS:
        codes = np.floor(rows[:, live] / steps[live][:, None] + offset).clip(-4096, 4095)
        places = number[mask] * 8192 + codes[:, mask].astype(np.int64) + 4096
        counts = np.bincount(places.reshape(-1), minlength=64 * 8192).reshape(64, 8192)
        found += sum(_class_bits(row[row > 0]) for row in counts if row.any())
    return found / len(_OFFSETS) / len(rows) / chosen.size


def _class_bits(counts):
    """Bits of all codes of a class; the second part is what a finite sample hides (Miller)."""
    total = counts.sum()
    return float(np.sum(counts * np.log2(total / counts)) + (len(counts) - 1) / 2 / np.log(2))
