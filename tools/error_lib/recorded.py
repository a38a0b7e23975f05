"""Gradients of 16 ranks that tools/adaptive_study/record.py has written: 65,536 values of each of
four trainings at four times. The same for every seed, which is then one of rounding alone.

The presets that rotate take all tensors of a recording as one flat array.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from adaptive_study.data import recorded
from adaptive_study.record import RANK_COUNT

NETWORKS = ("lm", "gpt", "cnn", "clicks")


@dataclass(frozen=True)
class Recording:
    """One time of a training; small enough to pickle."""

    path: Path
    name: str  # in the file
    rank_count_max = RANK_COUNT

    def rank_gradients(self, rank_count, seed):
        """(ranks, values) float32: of the first ranks, whatever the seed is."""
        return _of(self.path)[0][self.name].inputs[:rank_count]


def recordings(path):
    """({"lm step 10%": Recording, ..}, digest) of a file of record.py."""
    found, _, digest = _of(path)
    return {name.replace(" ", " step "): Recording(path, name) for name in found}, digest


_of = cache(recorded)
