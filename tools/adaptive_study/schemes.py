"""The schemes of the tables by name: what is proposed, what it is compared with, and variants."""

from dataclasses import replace

from .codecs import Adaptive
from .rice import Rice
from .rivals import DynamiqLike, Peer, Preset
from .rule import Rule

# What docs/decisions/0030-adaptive-widths.md proposes, but for the mean.
PROPOSED = Adaptive(5, rule=Rule(0.5), down="same")
# The mean that has the bytes of int4 with a 16-bit scale for every 32 values, both ways.
INT4_MEAN = 4.5 - 3 * 16 / 128 / 2

# The mean that has the bytes of DynamiQ-like 5 bits.
DYNAMIQ_MEAN = 5 - 3 * 16 / 128 / 2

NEAREST_7 = "int4 two-shot, scale per 32, nearest"
NEAREST_8 = "int4 two-shot, scale per 32, extreme at -8"
RANDOM_7 = "int4 two-shot, scale per 32, random"


def with_bits(scheme, bits):
    """The scheme with the mean that sends as many bits as PROPOSED with a mean of `bits`."""
    side = 3 * 16 / 128 / 2
    mean = bits + side - 3 * 16 / scheme.block / 2
    return replace(scheme, mean=mean)


def _adaptive():
    found = {f"adaptive-{mean}": replace(PROPOSED, mean=mean) for mean in (3, 4, 5, 6)}
    found["adaptive-4.31"] = replace(PROPOSED, mean=INT4_MEAN)
    found["adaptive-4.81"] = replace(PROPOSED, mean=DYNAMIQ_MEAN)
    return found


RICE_SHIFT = 0.2  # bits that go down rather than up


def rice(mean, shift=RICE_SHIFT, **changed):
    """Rice codes with the bytes of adaptive widths of this mean."""
    half = mean + 3 * 16 / 128 / 2
    return Rice(half - shift, half + shift, **changed)


_MEANS = (("4", 4), ("4.31", INT4_MEAN), ("4.81", DYNAMIQ_MEAN), ("5", 5), ("6", 6))

MAIN = {
    **_adaptive(),
    **{f"adaptive-{name}, exponent 1": replace(PROPOSED, mean=mean, rule=Rule(1.0))
       for name, mean in _MEANS},
    **{f"adaptive-{name}, rotated": replace(PROPOSED, mean=mean, rotate=128, subtractive=True)
       for name, mean in _MEANS},
    **{f"rice-{name}": rice(mean) for name, mean in (("3", 3), *_MEANS)},
    **{f"fixed-{mean}": Adaptive(mean, scope="none") for mean in (3, 4, 5, 6)},
    **{f"fixed-{mean}, rotated": Adaptive(mean, scope="none", rotate=128, subtractive=True)
       for mean in (4, 5, 6)},
    **{f"per-tensor-{mean}": Adaptive(mean, scope="equal in tensors", rule=Rule(1.0))
       for mean in (4, 5, 6)},
    "blocks-8": Preset("blocks-8"), "blocks-8,bits=4": Preset("blocks-8,bits=4"),
    "rotated-8": Preset("rotated-8"), "rotated-4-8": Preset("rotated-4-8"),
    "rotated-4": Preset("rotated-4"),
    **{name: Peer(name) for name in (NEAREST_7, NEAREST_8, RANDOM_7,
                                     "int8 two-shot, scale per 32, nearest")},
    "DynamiQ-like 5 bits": DynamiqLike(5),
    "DynamiQ-like 5 bits, butterfly": DynamiqLike(5, "butterfly"),
    "DynamiQ-like 6 bits": DynamiqLike(6),
}

EXPONENTS = (0.25, 0.5, 0.75, 1.0)


def exponent_grid(mean):
    """{(least width, exponent): scheme}."""
    return {(least, exponent): Adaptive(mean, rule=Rule(exponent, tuple(range(least, 9))))
            for least in (2, 3) if least < mean for exponent in EXPONENTS}


def variants(mean):
    """{what is changed: scheme}, all with the bytes of PROPOSED with this mean."""
    base = replace(PROPOSED, mean=mean)
    rule = base.rule

    def widths(*chosen):
        return replace(base, rule=replace(rule, widths=chosen))

    found = {
        "fixed widths": replace(base, scope="none") if mean == int(mean) else base,
        "widths 2, 4, 8": widths(2, 4, 8),
        "widths 2, 4, 6, 8": widths(2, 4, 6, 8),
        "widths 4, 8": widths(4, 8),
        "widths 2..10": widths(*range(2, 11)),
        "gains of 4^-w": replace(base, rule=replace(rule, approximate=True)),
        "a budget for each rank's slice": replace(base, scope="slice"),
        "a budget for each tensor": replace(base, scope="tensor"),
        "a budget for each 128 blocks": replace(base, scope=128),
        "a budget for each 32 blocks": replace(base, scope=32),
        "one width in a tensor": replace(base, scope="equal in tensors"),
        "one step for the call": replace(base, step="call", rule=replace(rule, one_step=True)),
        "blocks of 64": with_bits(replace(base, block=64), mean),
        "blocks of 32": with_bits(replace(base, block=32), mean),
        "rotations of 1024": replace(base, rotate=1024),
        "rotations of 128": replace(base, rotate=128),
        "rotations of 1024, subtractive down": replace(base, rotate=1024, subtractive=True),
        "rotations of 128, subtractive down": replace(base, rotate=128, subtractive=True),
        "subtractive down": replace(base, subtractive=True),
        "down by the sums' peaks": replace(base, down="peaks"),
    }
    for shift in (-1.0, -0.5, 0.5):
        found[f"{shift:+g} bit up, {-shift:+g} down, by peaks"] = replace(
            base, down="peaks", mean=mean + shift, mean_down=mean - shift)
    if mean == 6:
        found["4 up, 8 down everywhere"] = replace(base, mean=4, mean_down=8, down="fixed")
    return {name: scheme for name, scheme in found.items() if min(scheme.rule.widths) < mean}


def rice_variants(mean):
    """{what is changed: scheme}, all with the bytes of rice(mean)."""
    return {
        **{f"{shift:g} bits from up to down": rice(mean, shift)
           for shift in (0, 0.1, 0.3, 0.5)},
        **{f"cells of {cell}": rice(mean, cell=cell) for cell in (16, 64)},
        **{f"groups of {count} blocks": rice(mean, group_blocks=count) for count in (8, 64)},
        "each rank's own steps": rice(mean, own_steps=True),
        "each rank's own steps, 0.4 bits from up to down": rice(mean, 0.4, own_steps=True),
        "subtractive down": rice(mean, subtractive=True),
        "the rule, exponent 1/2": replace(PROPOSED, mean=mean),
    }
