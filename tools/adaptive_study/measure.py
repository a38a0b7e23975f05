"""How far a mean is from the exact one: in square, beside neighbours, by tensor."""

from dataclasses import asdict, dataclass, fields

import numpy as np

from .data import BLOCK


@dataclass
class Errors:
    """Of one outcome, or the mean of several."""

    square: float  # |G - mean|^2 / |mean|^2
    near_median: float  # of |error| over the rms of the exact mean in the value's block of 128
    near_high: float  # the 90th percentile of that
    tensor_median: float  # of the tensors' own square errors
    tensor_high: float
    bits_up: float  # per value, all included
    bits_down: float
    owner_blocks: float = 1.0  # most blocks of an owner over the mean; 1 where none are counted

    @property
    def bits(self):
        """Up and down together."""
        return self.bits_up + self.bits_down

    def bytes_per_value(self, rank_count):
        return self.bits / 8 * (rank_count - 1) / rank_count


def errors_of(outcome, data):
    error = np.where(data.is_value, outcome.mean - data.exact, 0)
    shape = (-1, BLOCK)
    energy = np.square(data.exact).reshape(shape).sum(axis=1)
    counts = data.is_value.reshape(shape).sum(axis=1)
    rms = np.sqrt(energy / np.maximum(counts, 1))
    counted = data.is_value.reshape(shape) & (rms > 0)[:, None]
    near = (np.abs(error).reshape(shape) / np.where(rms > 0, rms, 1)[:, None])[counted]
    of_tensors = np.bincount(data.tensor_of_block, np.square(error).reshape(shape).sum(axis=1))
    energies = np.bincount(data.tensor_of_block, energy)
    shares = of_tensors[energies > 0] / energies[energies > 0]
    return Errors(float(np.square(error).sum() / energy.sum()),
                  *(float(q) for q in np.percentile(near, (50, 90))),
                  *(float(q) for q in np.percentile(shares, (50, 90))),
                  outcome.bits_up, outcome.bits_down,
                  float(outcome.extra.get("blocks of an owner", 1.0)))


def mean_of(found):
    """The mean of several Errors, field by field."""
    rows = [asdict(one) for one in found]
    return Errors(**{one.name: float(np.mean([row[one.name] for row in rows]))
                     for one in fields(Errors)})
