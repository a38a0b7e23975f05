"""What is claimed of the presets against schemes that send no more bytes, checked in numbers."""

from dataclasses import dataclass

from .generators import GENERATORS
from .peers import PEERS

LIGHT, HEAVY = ("gauss", "layers"), ("heavy",)
MADE_UP = LIGHT + HEAVY
# Of the networks of gradients.py, perceptrons with one hidden layer, as the results state: on
# others' gradients claims may fail (docs/results/errors.md names those of a convolutional network).
GRADIENTS = ()
_BY_NAME = {peer.name: peer for peer in PEERS}


@dataclass(frozen=True)
class Claim:
    """`preset` is at least `factor` times below every peer of `among` on this data."""

    preset: str  # the name of a scheme
    factor: float
    among: str  # "unbiased", "biased" or "4-bit"
    data: tuple
    ranks_min: int = 2

    @property
    def text(self):
        data = ", ".join(self.data) or "gradients of the demo's perceptrons"
        ranks = f", from {self.ranks_min} ranks" if self.ranks_min > 2 else ""
        goal = "below" if self.factor == 1 else f"{self.factor:g} times below"
        if self.factor < 1:
            goal = f"at most {1 / self.factor - 1:.0%} above"
        return f"{self.preset} {goal} every {self.among} peer ({data}{ranks})"


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
                  if name in _BY_NAME and _is_among(_BY_NAME[name], claim.among)
                  and cell.bytes_per_value <= ours.bytes_per_value]
        peer_error, peer = min(rivals, default=(None, None))
        found.append(Instance(claim, data, rank_count, ours.error, peer, peer_error))
    return found


def _speaks_of(claim, data):
    return data in claim.data if claim.data else data not in GENERATORS


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
        lines += [f"     {one.text}" for one in failed]
    return lines
