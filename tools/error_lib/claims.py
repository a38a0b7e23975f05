"""What is claimed of the presets against schemes that send no more bytes, checked in numbers."""

import statistics
from dataclasses import dataclass

from .generators import GENERATORS
from .peers import PEERS
from .recorded import NETWORKS

LIGHT, HEAVY = ("gauss", "layers"), ("heavy",)
IID = ("gauss", "heavy")  # every value is drawn alike: no block is larger than others
MADE_UP = LIGHT + HEAVY
# Of the networks of gradients.py, perceptrons with one hidden layer, as the results state: on
# others' gradients claims may fail (docs/results/errors.md names those of a convolutional network).
GRADIENTS = ()
# From a tenth of a training on; before, gradients of all layers are more alike.
RECORDED = tuple(f"{network} step {time}" for network in NETWORKS
                 for time in ("10%", "50%", "100%"))
_KINDS = ("unbiased", "biased", "4-bit")
_RECORDED_TEXT = f"recorded gradients of {', '.join(NETWORKS)} from 10% of the training on"
_BY_NAME = {peer.name: peer for peer in PEERS}


@dataclass(frozen=True)
class Claim:
    """`preset` is at least `factor` times below every peer of `among` that sends no more bytes, or
    below the one named so if the preset sends at most `bytes_share` of its bytes."""

    preset: str  # the name of a scheme
    factor: float
    among: str  # "unbiased", "biased" or "4-bit"; or the name of a scheme or a peer
    data: tuple
    ranks_min: int = 2
    bytes_share: float = 1

    @property
    def text(self):
        data = ", ".join(self.data) or "gradients of the demo's perceptrons"
        data = _RECORDED_TEXT if self.data == RECORDED else data
        ranks = f", from {self.ranks_min} ranks" if self.ranks_min > 2 else ""
        goal = "below" if self.factor == 1 else f"{self.factor:g} times below"
        if self.factor < 1:
            times = 1 / self.factor
            goal = f"at most {times:g} times" if times >= 2 else f"at most {times - 1:.0%} above"
        peer = f"every {self.among} peer" if self.among in _KINDS else self.among
        share = f", {self.bytes_share:.0%} of its bytes" if self.bytes_share != 1 else ""
        return f"{self.preset} {goal} {peer} ({data}{ranks}{share})"


def _below_others(family):
    """Of presets with 4, 5 and 6 bits on average."""
    four, five, six = (f"{family}-{bits} direct" for bits in (4, 5, 6))
    return (
        Claim(four, 2.5, "int4 two-shot, scale per 32, nearest", RECORDED),
        Claim(four, 5, "int4 two-shot, scale per 32, random", RECORDED),
        Claim(five, 8, "rotated-4-8 direct", RECORDED),
        Claim(five, 1, "DynamiQ-like 5 bits", RECORDED, bytes_share=1.04),
        Claim(six, 1 / 2.5, "blocks-8 direct", RECORDED, bytes_share=0.76),
        Claim(four, 1 / 1.05, "blocks-8,bits=4 direct", IID),
    )


CLAIMS = (
    Claim("rotated-8 direct", 1, "unbiased", MADE_UP),
    Claim("rotated-8 direct", 1, "unbiased", GRADIENTS),
    Claim("rotated-8 direct", 1 / 1.25, "biased", LIGHT),
    Claim("rotated-8 direct", 3, "biased", HEAVY),
    Claim("rotated-4 direct", 1, "unbiased", MADE_UP),
    Claim("rotated-4 direct", 1, "unbiased", GRADIENTS),
    Claim("rotated-4-8 direct", 2, "4-bit", LIGHT, ranks_min=16),
    Claim("rotated-4-8 direct", 1, "4-bit", HEAVY, ranks_min=64),
    Claim("blocks-8 direct", 1 / 1.25, "unbiased", MADE_UP),
    Claim("blocks-8 direct", 1 / 1.25, "unbiased", GRADIENTS),
    *_below_others("adaptive"),
    *_below_others("rice"),
)


@dataclass(frozen=True)
class Instance:
    """A claim on one kind of data with n ranks: the peer that comes nearest."""

    claim: Claim
    data: str
    rank_count: int
    error: float | None
    peer: str | None = None  # None: no peer sends as few bytes
    peer_error: float | None = None

    @property
    def holds(self):
        """None where the preset was not run."""
        if self.error is None:
            return None
        return self.peer is None or self.peer_error >= self.claim.factor * self.error

    @property
    def text(self):
        if self.error is None:
            return f"{self.data}, n = {self.rank_count}: not run"
        if self.peer is None:
            return f"{self.data}, n = {self.rank_count}: no such peer sends as few bytes"
        return (f"{self.data}, n = {self.rank_count}: {self.error:.2e} against "
                f"{self.peer_error:.2e}, factor {self.peer_error / self.error:.2f} ({self.peer})")


def check(claim, table):
    """Instances of a claim in a table of measure.collect."""
    found = []
    for (data, rank_count), cells in table.items():
        if rank_count < claim.ranks_min or not _speaks_of(claim, data):
            continue
        ours = cells[claim.preset]
        rivals = [(cell.error, name) for name, cell in cells.items()
                  if _is_rival(claim, name, cell, ours)]
        peer_error, peer = min(rivals, default=(None, None))
        found.append(Instance(claim, data, rank_count, ours.error, peer, peer_error))
    return found


def _speaks_of(claim, data):
    if claim.data:
        return data in claim.data
    return data.partition(" step ")[0] not in (*GENERATORS, *NETWORKS)


def _is_rival(claim, name, cell, ours):
    if claim.among not in _KINDS:  # with half a percent for headers and the ends of groups
        fits = ours.bytes_per_value <= 1.005 * claim.bytes_share * cell.bytes_per_value
        return name == claim.among and fits
    peer = _BY_NAME.get(name)
    return (peer is not None and cell.bytes_per_value <= ours.bytes_per_value
            and _is_among(peer, claim.among))


def _is_among(peer, among):
    if among == "4-bit":
        return peer.bits[0] == 4
    return peer.unbiased == (among == "unbiased")


def verdict_lines(table):
    """One PASS, FAIL or NOT RUN line per claim, then the instances that failed."""
    lines = []
    for claim in CLAIMS:
        instances = check(claim, table)
        run = [one for one in instances if one.holds is not None and one.peer is not None]
        failed = [one for one in run if not one.holds]
        if not run:
            lines.append(f"NOT RUN {claim.text}")
            continue
        worst = min(run, key=lambda one: one.peer_error / one.error)
        word = "FAIL" if failed else "PASS"
        lines.append(f"{word} {claim.text}: {len(run) - len(failed)} of {len(run)}; worst "
                     f"{worst.text}")
        if failed and claim.data == RECORDED:
            lines += [f"     {_of_network(network, run)}" for network in NETWORKS]
        else:
            lines += [f"     {one.text}" for one in failed]
    return lines


def _of_network(network, instances):
    """How many hold on one network, and their factors."""
    own = [one for one in instances if one.data.startswith(f"{network} ")]
    factors = [one.peer_error / one.error for one in own]
    if not own:
        return f"{network}: not run"
    return (f"{network}: {sum(one.holds for one in own)} of {len(own)}; factors {min(factors):.2f} "
            f"to {max(factors):.2f}, geometric mean {statistics.geometric_mean(factors):.2f}")
