"""What a code stands for: levels and their range (FORMAT.md sections 1 and 5)."""

from dataclasses import dataclass

_PAIRINGS = {
    ("linear", 8): ("exact", "average", "wide"), ("linear", 4): ("exact", "average", "wide"),
    ("exponential", 8): ("sum", "wide"), ("exponential", 4): ("average", "wide"),
    ("none", 32): ("sum", "wide"),
}


@dataclass(frozen=True)
class Format:
    """The codes of one allreduce.

    combine: how they are added: exact, average or sum in code form, or wide (the direct schedule,
        whatever combine its quantizer names).
    combines: the longest chain of reductions in code form, 0 for wide.
    """

    levels: str
    bits: int
    combine: str
    rank_count: int = 1
    combines: int = 0
    nearest: bool = False

    def __post_init__(self):
        allowed = _PAIRINGS[self.levels, self.bits]
        if self.combine not in allowed:
            raise ValueError(f"{self.levels} levels of {self.bits} bits have no reduction "
                             f"{self.combine}; allowed: {', '.join(allowed)}")
        if self.levels == "linear" and self.s < 1:
            raise ValueError(f"{self.bits} bits hold no exact sum over {self.rank_count} ranks")

    @property
    def largest_code(self):
        """C of exponential levels."""
        return 2**(self.bits - 1) - 1

    @property
    def s(self):
        """Number of linear steps between zero and the norm."""
        if self.combine == "exact":
            return (2**(self.bits - 1) - 1) // self.rank_count
        return 2**(self.bits - 1) - 1

    @property
    def headroom(self):
        """h: codes kept free above the norm for sums of exponential codes."""
        return min(self.combines, 64) if self.combine == "sum" else 0


def exponential_value(code):
    """value(c) in units of the smallest level, as an exact integer."""
    return 0 if code == 0 else 2**(code - 1)
