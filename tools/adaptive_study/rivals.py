"""What adaptive widths are compared with: the library's presets, other systems, DynamiQ's idea.

The library runs itself; the others are functions of tools/error_lib/peers.py and the one below.
"""

from dataclasses import dataclass

import numpy as np

from .codecs import Outcome
from .rule import Rule, allocate, codes_of, top_of

_SUPERGROUP, _GROUP = 256, 16
_GROUP_SCALE_BITS, _SUPERGROUP_BITS = 8, 16 + 2  # a scale; a scale and the width's number


@dataclass(frozen=True)
class Preset:
    """The library's own simulation of a spec under the direct schedule, tensor by tensor."""

    spec: str

    def run(self, data, draws):
        from error_lib.executors import Refusal, library_mean
        from error_lib.schemes import Scheme

        scheme = Scheme(self.spec, "direct")
        pieces = data.tensors() if "rotated" in self.spec else [slice(None)]
        means = [library_mean(scheme, np.ascontiguousarray(data.inputs[:, piece]),
                              draws.seed * 1000 + number) for number, piece in enumerate(pieces)]
        for mean in means:
            if isinstance(mean, Refusal):
                raise ValueError(f"{self.spec}: {mean.status}: {mean.sentence}")
        up, down = scheme.bits
        side = 16 / scheme.fields["block"] if scheme.fields["block"] else 0  # of norms and scales
        return Outcome(np.concatenate(means), up + side, down + 2 * side)


@dataclass(frozen=True)
class Peer:
    """A function of tools/error_lib/peers.py by its name."""

    name: str

    def run(self, data, draws):
        from error_lib.peers import PEERS

        peer = next(one for one in PEERS if one.name == self.name)
        mean = peer.run(data.inputs, np.random.default_rng([5, draws.seed]))
        count, values = data.inputs.shape
        bits = 8 * peer.bytes_per_value(count, values) * count / (count - 1) / 2
        return Outcome(mean, bits, bits)


@dataclass(frozen=True)
class DynamiqLike:
    """Widths 2, 4 or 8 for each 256 values, sent along; a scale for each 16; no shared norms.

    After the description of DynamiQ (arXiv 2602.08923); no code or detail of theirs. In its favour:
    widths from the exact energy of the ranks over the whole call, strata across ranks, uniform
    levels that reach the group's largest value. hops: "two-shot", or "butterfly", which decodes,
    adds and encodes log2 n times.
    """

    bits: float  # per value and direction, scales and widths included
    hops: str = "two-shot"

    def run(self, data, draws):
        count = -(-data.inputs.shape[1] // _SUPERGROUP) * _SUPERGROUP
        x = np.zeros((data.rank_count, count), np.float32)
        x[:, :data.inputs.shape[1]] = data.inputs
        energy = np.square(x.reshape(len(x), -1, _SUPERGROUP)).sum(axis=(0, 2))
        codes = codes_of(np.sqrt(energy))
        side = _GROUP_SCALE_BITS / _GROUP + _SUPERGROUP_BITS / _SUPERGROUP
        rule = Rule(exponent=1.0, widths=(2, 4, 8), approximate=True)
        widths = allocate(codes, (self.bits - side) * len(codes), rule)
        tops = np.array([top_of(max(width, 2)) for width in widths], np.float32)[:, None, None]
        padding = count - draws.up.shape[1]
        up = np.pad(draws.up, ((0, 0), (0, padding)))
        down = np.pad(draws.down, (0, padding))
        if self.hops == "two-shot":
            total = sum(_decoded(row, tops, u) for row, u in zip(x, up))
        else:
            total = _butterfly(x, tops, up)
        mean = _decoded(total / np.float32(len(x)), tops, down)
        return Outcome(mean[:data.inputs.shape[1]], self.bits, self.bits)


def _butterfly(x, tops, up):
    """Partial sums of pairs: one half comes encoded, the other is the rank's own."""
    rows, number = list(x), 0
    while len(rows) > 1:
        merged = []
        for mine, other in zip(rows[::2], rows[1::2]):
            merged.append(mine + _decoded(other, tops, up[number]))
            number += 1
        rows = merged
    return rows[0]


def _decoded(values, tops, u):
    groups = values.reshape(-1, _SUPERGROUP // _GROUP, _GROUP)
    largest = np.abs(groups).max(axis=2, keepdims=True)
    whole = largest.max(axis=1, keepdims=True)
    unit = np.where(whole > 0, whole, 1) / np.float32(2**_GROUP_SCALE_BITS - 1)
    steps = np.ceil(largest / unit) * unit / tops
    codes = np.floor(groups / np.where(steps > 0, steps, 1) + u.reshape(groups.shape))
    return (np.clip(codes, -tops, tops) * steps).reshape(-1)
