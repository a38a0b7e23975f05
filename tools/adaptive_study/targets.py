"""What the project asked of adaptive widths, each a line that says PASS or FAIL."""

import math
from dataclasses import dataclass, replace

from .schemes import NEAREST_7, NEAREST_8, RANDOM_7

LATE = ("10%", "50%", "100%")
IID = ("gauss", "heavy")


@dataclass(frozen=True)
class Target:
    """`value` of `ours` is at most `factor` times that of each of `others`."""

    title: str
    ours: str
    others: tuple
    factor: float
    value: str = "square"
    data: tuple = ("lm", "gpt", "cnn")
    shares: tuple = LATE
    bytes_share: float = 1.001  # of the others', at most

    def places(self, table):
        for data, rank_count in table:
            kind, _, share = data.partition(" ")
            if kind in self.data and (not share or share in self.shares):
                yield data, rank_count


TARGETS = (
    Target("adaptive-4 at least 2.5x below biased int4 per 32, -7..7", "adaptive-4",
           (NEAREST_7,), 1 / 2.5),
    Target("adaptive-4 at least 2.5x below biased int4 per 32, -8..7", "adaptive-4",
           (NEAREST_8,), 1 / 2.5),
    Target("adaptive-4.31, of int4's bytes, at least 2.5x below biased int4 per 32, -7..7",
           "adaptive-4.31", (NEAREST_7,), 1 / 2.5),
    Target("adaptive-4.31, of int4's bytes, at least 2.5x below biased int4 per 32, -8..7",
           "adaptive-4.31", (NEAREST_8,), 1 / 2.5),
    Target("adaptive-4 at least 5x below unbiased int4 per 32", "adaptive-4", (RANDOM_7,), 1 / 5),
    Target("adaptive-4.31, of int4's bytes, at least 5x below unbiased int4 per 32",
           "adaptive-4.31", (RANDOM_7,), 1 / 5),
    Target("adaptive-5 at least 8x below rotated-4-8", "adaptive-5", ("rotated-4-8",), 1 / 8),
    Target("adaptive-5 below DynamiQ-like 5 bits", "adaptive-5",
           ("DynamiQ-like 5 bits", "DynamiQ-like 5 bits, butterfly"), 1, bytes_share=1.04),
    Target("adaptive-4.81, of the same bytes, below DynamiQ-like 5 bits", "adaptive-4.81",
           ("DynamiQ-like 5 bits", "DynamiQ-like 5 bits, butterfly"), 1),
    Target("adaptive-6 at most 2.5x blocks-8 at three quarters of its bytes", "adaptive-6",
           ("blocks-8",), 2.5, bytes_share=0.76),
    *(Target(f"adaptive-{mean} at most 5 % above fixed-{mean} on iid data", f"adaptive-{mean}",
             (f"fixed-{mean}",), 1.05, data=IID) for mean in (3, 4, 5, 6)),
    *(Target(f"adaptive-{mean} at least 2x below widths per tensor", f"adaptive-{mean}",
             (f"per-tensor-{mean}",), 1 / 2) for mean in (4, 5, 6)),
    *(Target(f"(not asked) adaptive-{mean} at least 2x below fixed-{mean}", f"adaptive-{mean}",
             (f"fixed-{mean}",), 1 / 2, data=("lm", "gpt", "cnn", "clicks")) for mean in (4, 5, 6)),
    Target("adaptive-5: 90th percentile of the tensors' own errors no worse than rotated-4-8",
           "adaptive-5", ("rotated-4-8",), 1, value="tensor_high"),
    Target("adaptive-5: 90th percentile of errors beside neighbours no worse than rotated-4-8",
           "adaptive-5", ("rotated-4-8",), 1, value="near_high"),
)


# Square errors, and the two that show what small values and small tensors pay.
_MEASURES = {"square": "square error", "near_high": "90th percentile of errors beside neighbours",
             "tensor_high": "90th percentile of the tensors' own errors"}

# Not asked of anything yet: whether Rice codes are better than the rule in all respects.
RICE_TARGETS = tuple(
    Target(f"(not asked) rice-{mean}: {text} below adaptive-{mean}", f"rice-{mean}",
           (f"adaptive-{mean}",), 1, value=value, data=("lm", "gpt", "cnn", "clicks"))
    for mean in (3, 4, 5, 6) for value, text in _MEASURES.items())


def replaced(targets, name):
    """The same asked of another scheme: name "rice-{}" makes "rice-5" of "adaptive-5"."""
    return [replace(target, title=target.title.replace(target.ours, ours, 1), ours=ours)
            for target in targets
            for ours in [name.format(target.ours.removeprefix("adaptive-"))]]


def instances_of(target, table):
    """(ratio, whether it holds, place, the other scheme, share of its bytes) of each comparison."""
    found = []
    for place in target.places(table):
        for other in target.others:
            ours, theirs = table[place].get(target.ours), table[place].get(other)
            if ours and theirs:
                ratio = getattr(ours, target.value) / getattr(theirs, target.value)
                fits = ours.bits <= target.bytes_share * theirs.bits
                found.append((ratio, ratio <= target.factor and fits, place, other,
                              ours.bits / theirs.bits))
    return found


def lines(table, targets=TARGETS):
    """A line per target; if it fails, one for each network or kind of data."""
    return [line for target in targets
            for line in _lines_of(target, instances_of(target, table))]


def summary(table, names):
    """[[title, cell for each name]]: PASS or FAIL, how many hold, geometric means by kind."""
    return [[target.title, *(_cell(instances_of(replaced([target], name)[0], table))
                             for name in names)] for target in TARGETS]


def _cell(instances):
    if not instances:
        return "-"
    held = sum(one[1] for one in instances)
    means = ", ".join(f"{kind} {_times(_mean(kind, instances))}"
                      for kind in dict.fromkeys(_kind(one) for one in instances))
    word = "PASS" if held == len(instances) else "FAIL"
    return f"**{word}** {held} of {len(instances)}: {means}"


def _mean(kind, instances):
    logarithms = [math.log(one[0]) for one in instances if _kind(one) == kind]
    return math.exp(sum(logarithms) / len(logarithms))


def _lines_of(target, instances):
    if not instances:
        return [f"NOT RUN {target.title}"]
    held = sum(one[1] for one in instances)
    text = (f"{'PASS' if held == len(instances) else 'FAIL'} {target.title}: {held} of "
            f"{len(instances)}; worst {_factor(max(instances))}, best {_factor(min(instances))}")
    return [text, *(_of_kind(kind, instances) for kind in
                    dict.fromkeys(_kind(one) for one in instances) if held < len(instances))]


def _of_kind(kind, instances):
    """How many hold on one network, and their mean factor."""
    own = [one for one in instances if _kind(one) == kind]
    return (f"     {kind}: {sum(one[1] for one in own)} of {len(own)}; {_times(max(own)[0])} to "
            f"{_times(min(own)[0])}, geometric mean {_times(_mean(kind, own))}")


def _kind(instance):
    return instance[2][0].partition(" ")[0]


def _times(ratio):
    return f"{1 / ratio:.2f}x below" if ratio < 1 else f"{ratio:.2f}x"


def _factor(instance):
    ratio, _, (data, rank_count), other, share = instance
    return (f"{_times(ratio)} ({data}, n = {rank_count}, {other.partition(',')[0]}, "
            f"bytes {share:.3f})")
