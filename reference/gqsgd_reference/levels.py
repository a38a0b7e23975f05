"""What a code stands for: levels and their range (FORMAT.md sections 1, 5 and 13)."""

from dataclasses import dataclass, replace
from fractions import Fraction

_PAIRINGS = {
    ("linear", 0): ("wide",), ("rice", 0): ("wide",),
    ("linear", 8): ("exact", "average", "wide"), ("linear", 4): ("exact", "average", "wide"),
    ("exponential", 8): ("sum", "wide"), ("exponential", 4): ("average", "wide"),
    ("none", 32): ("sum", "wide"), ("bf16", 16): ("wide",), ("fp16", 16): ("wide",),
}


@dataclass(frozen=True)
class Format:
    """The codes of one allreduce; fields are named as in the text of a quantizer.

    combine: how they are added: exact, average or sum in code form, or wide (the direct schedule,
        whatever combine its quantizer names).
    combines: the longest chain of reductions in code form, 0 for wide.
    bits_down: of what a wide sum becomes; 0 stands for bits.
    mean_bits: of width=adaptive and levels=rice, 2.5 to 8, where bits is 0; else 0.
    node, node_count: of sums of a node's ranks, the node and how many there are; else 0.
    """

    levels: str
    bits: int
    combine: str
    rank_count: int = 1
    reduction_depth: int = 0
    rounding: str = "independent"
    block: int = 0
    bits_down: int = 0
    rescale: bool = False
    rounding_down: str = "random"
    rotate: str = "none"
    mantissa_bits: int = 0
    mean_bits: float = 0
    node: int = 0
    node_count: int = 0

    def __post_init__(self):
        allowed = _PAIRINGS[self.levels, self.bits]
        if self.combine not in allowed:
            raise ValueError(f"{self.levels} levels of {self.bits} bits have no reduction "
                             f"{self.combine}; allowed: {', '.join(allowed)}")
        if self.levels == "linear" and not self.mean_bits and self.s < 1:
            raise ValueError(f"{self.bits} bits hold no exact sum over {self.rank_count} ranks")
        for field, needed in _needs(self).items():
            raise ValueError(f"{field}={getattr(self, field)} needs {needed}")

    @property
    def nearest(self):
        """Whether no encode draws a random word."""
        return self.rounding == "nearest"

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
        return min(self.reduction_depth, 64) if self.combine == "sum" else 0

    @property
    def down(self):
        """The format of reduced codes: bits_down after a wide sum."""
        if self.combine != "wide" or not self.bits_down:
            return self
        return replace(self, bits=self.bits_down)


def encodes_nodes_down(form):
    """Whether, in a hierarchy, a node's mean is encoded as the result is (section 10)."""
    finer = form.rescale or form.down.bits > form.bits
    return form.levels == "linear" and finer


def has_norm(levels):
    """Whether codes are fractions of a norm; otherwise values travel as floats."""
    return levels in ("linear", "exponential")


def _needs(form):
    """{field: what it needs} of fields that do not go with the others."""
    quantized, wide = has_norm(form.levels), form.combine == "wide"
    same_bits = form.bits_down in (0, form.bits)
    rice = form.levels == "rice"
    grouped = ((form.levels, form.block) in (("linear", 128), ("rice", 0))
               and form.bits == form.bits_down == 0 and form.rotate == "none"
               and 2.5 <= form.mean_bits <= 8 and form.mean_bits * 2 % 1 == 0)
    rules = {
        "mean_bits": (grouped if form.mean_bits else form.bits > 0,
                      "a multiple of 0.5 from 2.5 to 8, linear levels and blocks of 128, or rice, "
                      "no rotation and no bits, or bits instead"),
        "block": (form.block == 0 or quantized, "levels linear or exponential"),
        "rounding": (form.rounding != "correlated" or quantized or rice,
                     "levels linear, exponential or rice"),
        "rotate": (form.rotate == "none" or quantized, "levels linear or exponential"),
        "bits_down": (same_bits or quantized and wide, "quantized levels and the direct schedule"),
        "rescale": (not form.rescale or form.block > 0 and wide,
                    "norms per block and the direct schedule"),
        "rounding_down": (form.rounding_down == "random"
                          or form.levels == "linear" and wide and not form.nearest,
                          "linear levels, rounding at random and the direct schedule"),
        "mantissa_bits": (form.mantissa_bits == 0 or form.mantissa_bits == 2 and form.bits == 8
                          and form.levels == "exponential" and wide and same_bits,
                          "exponential levels, 8 bits both ways and the direct schedule"),
    }
    return {field: needed for field, (holds, needed) in rules.items() if not holds}


def exponential_value(code, mantissa_bits=0):
    """value(c) in units of the smallest octave, exact."""
    sub_levels = 2**mantissa_bits
    if code < sub_levels:
        return Fraction(code, sub_levels)
    octave = 2**((code >> mantissa_bits) - 1)
    return octave * (1 + Fraction(code % sub_levels, sub_levels))


def value_over_octave(largest_code, mantissa_bits):
    """V: the largest value over the power of two of its octave; 1 or 1.75."""
    top = exponential_value(largest_code, mantissa_bits)
    return float(top / 2**((largest_code >> mantissa_bits) - 1))
