"""What the schemes work on: values of all ranks in tensors whose blocks of 128 begin anew."""

import json
import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

BLOCK = 128


@dataclass(frozen=True)
class Data:
    """Values of all ranks; every tensor is filled up to whole blocks with zeros."""

    name: str
    inputs: np.ndarray  # (ranks, padded values) float32
    starts: tuple  # of each tensor, in padded values, and the end
    counts: tuple  # values of each tensor before the padding

    @property
    def rank_count(self):
        return len(self.inputs)

    @cached_property
    def exact(self):
        """The mean in float64."""
        return self.inputs.mean(axis=0, dtype=np.float64)

    @cached_property
    def is_value(self):
        """(padded values) bool: not the zeros behind a tensor."""
        found = np.zeros(self.inputs.shape[1], bool)
        for start, count in zip(self.starts, self.counts):
            found[start:start + count] = True
        return found

    @cached_property
    def tensor_of_block(self):
        """(blocks of 128) number of the tensor."""
        return np.repeat(np.arange(len(self.counts)), np.diff(self.starts) // BLOCK)

    def tensors(self):
        """A slice for each tensor, padding included."""
        return [slice(a, b) for a, b in zip(self.starts, self.starts[1:])]

    def of_ranks(self, rank_count):
        """The same data of the first ranks alone."""
        return Data(self.name, self.inputs[:rank_count], self.starts, self.counts)


def in_tensors(name, inputs, counts):
    """Data of inputs (ranks, values) whose tensors follow each other without padding."""
    padded = [-(-count // BLOCK) * BLOCK for count in counts]
    starts = np.concatenate([[0], np.cumsum(padded)])
    values = np.zeros((len(inputs), starts[-1]), np.float32)
    place = 0
    for start, count in zip(starts, counts):
        values[:, start:start + count] = inputs[:, place:place + count]
        place += count
    return Data(name, values, tuple(int(start) for start in starts), tuple(counts))


def recorded(path):
    """({"lm 10%": Data, ..}, description, digest) of a file of record.py."""
    with np.load(path) as file:
        description = json.loads(str(file["description"]))
        found = {}
        for name in file.files:
            if name in ("description", "digest"):
                continue
            counts = [count for _, count in description[name.partition(" ")[0]]["tensors"]]
            values = (file[name].astype(np.uint32) << 16).view(np.float32)
            found[name] = in_tensors(name, values, counts)
        return found, description, str(file["digest"])


def made_up(kind, rank_count, value_count, seed):
    """Data of docs/results/errors.md; `layers` is a list of its 16 scales."""
    from error_lib.generators import GENERATORS, LAYER_SCALES

    random = np.random.default_rng([seed, zlib.crc32(kind.encode())])
    inputs = GENERATORS[kind](random, rank_count, value_count)
    tensor_count = len(LAYER_SCALES)
    return in_tensors(kind, inputs, [value_count // tensor_count] * tensor_count)
