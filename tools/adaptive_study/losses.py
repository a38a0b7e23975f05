#!/usr/bin/env python3
"""Where the error of adaptive widths above the limit comes from: a table of adaptive.md.

    python3 tools/adaptive_study/losses.py --refresh-docs

Takes one thing after the other from the rule, each measured on recorded gradients at the bytes of
`--mean`, until ideal codes are left. A minute on one core. Needs numpy.
"""

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT / folder) for folder in ("tools", "bindings/python", "reference")]

from adaptive_study.codecs import Outcome  # noqa: E402
from adaptive_study.data import BLOCK, recorded  # noqa: E402
from adaptive_study.entropy_coded import EntropyCoded, dithered, entropy_of  # noqa: E402
from adaptive_study.limit_table import NETWORKS, SIDE_BITS, late_cases, limits_of  # noqa: E402
from adaptive_study.limits import ideal_error, parts_of  # noqa: E402
from adaptive_study.measure import errors_of  # noqa: E402
from adaptive_study.page import write_table  # noqa: E402
from adaptive_study.report import table_text  # noqa: E402
from adaptive_study.rotation import Rotation  # noqa: E402
from adaptive_study.rule import Rule, allocate, codes_of, norms_of, top_of  # noqa: E402
from adaptive_study.schemes import PROPOSED  # noqa: E402


@dataclass(frozen=True)
class SubtractiveBothWays:
    """The rule with exponent 1, but owners know each rank's thresholds and take them off.

    entropy: `mean` is what codes take at their entropy, widths and steps being those of more bits.
    """

    mean: float
    rotate: int = 0
    entropy: bool = False

    def run(self, data, draws):
        x = data.inputs
        if self.rotate:
            rotation = Rotation(data.starts, self.rotate, draws.seed)
            x = rotation.forth(x)
        blocks = x.reshape(len(x), -1, BLOCK).astype(np.float64)
        up = draws.up.reshape(blocks.shape)
        chosen = data.is_value.reshape(-1, BLOCK)
        mean = self._mean(blocks, up, chosen) if self.entropy else self.mean
        _, means, steps = self._first_hop(blocks, up, mean)
        found = dithered(means, steps, draws.down.reshape(means.shape)).reshape(-1)
        side = 16 / BLOCK
        return Outcome(rotation.back(found) if self.rotate else found,
                       self.mean + side, self.mean + 2 * side)

    @staticmethod
    def _first_hop(blocks, up, mean):
        """(steps up, what the owners have, steps down)."""
        codes = codes_of(np.abs(blocks).max(axis=2)).max(axis=0)
        widths = allocate(codes, mean * len(codes), Rule(1.0))
        tops = np.array([top_of(max(width, 2)) for width in widths])
        steps = norms_of(codes) / tops
        means = dithered(blocks, steps, up).mean(axis=0)
        return steps, means, norms_of(codes_of(np.abs(means).max(axis=1))) / tops

    def _mean(self, blocks, up, chosen):
        """The mean of widths whose codes have 2 self.mean bits, up and down together."""
        low, high = self.mean, 8.0
        for _ in range(8):
            middle = (low + high) / 2
            steps_up, means, steps_down = self._first_hop(blocks, up, middle)
            spent = entropy_of(blocks[:4], steps_up, np.square(blocks).mean(axis=(0, 2)), chosen)
            spent += entropy_of(means[None], steps_down, np.square(means).mean(axis=1), chosen)
            low, high = (low, middle) if spent > 2 * self.mean else (middle, high)
        return low


def steps_of(mean):
    """{what is taken away: scheme}, each from the one before."""
    bits = 2 * mean
    rule = replace(PROPOSED, mean=mean)
    square = replace(rule, rule=Rule(1.0))
    return {
        "the rule, exponent 1/2": rule,
        "exponent 1, the least square error": square,
        "subtractive rounding down": replace(square, subtractive=True),
        "subtractive rounding up": SubtractiveBothWays(mean),
        "rotations of 128": SubtractiveBothWays(mean, rotate=128),
        "codes take their entropy (no rotation)": SubtractiveBothWays(mean, entropy=True),
        "widths need not be whole, steps by energies": EntropyCoded(bits),
        "norms and scales for free": EntropyCoded(bits + SIDE_BITS),
        "owners' own values exact": EntropyCoded(bits + SIDE_BITS, own_exact=True),
    }


def theory_of(data, rank_count, bits):
    """{what is taken away after that: |G - mean|^2 / |mean|^2}."""
    parts = parts_of(data, rank_count)
    energy = np.sum(parts.counts * parts.mean_energy)
    found = limits_of(data, rank_count, bits)
    unbiased = ideal_error(parts, rank_count, bits * data.inputs.shape[1], unbiased=True) / energy
    return {"long Gaussian codebooks in place of single values": unbiased,
            "may be biased": found["ideal"],
            "common part and own values free: the limit, Gaussian": found["gauss"],
            "the limit, any distribution": found["any"]}


def measure(gradients, mean, ranks):
    """{step: {network: geometric mean of the square errors over times and ranks}}."""
    logs = {}
    for network, whole, data, draws in late_cases(gradients, ranks):
        found = {step: errors_of(scheme.run(data, draws), data).square
                 for step, scheme in steps_of(mean).items()}
        found.update(theory_of(whole, data.rank_count, 2 * mean + SIDE_BITS))
        for step, error in found.items():
            logs.setdefault(step, {}).setdefault(network, []).append(np.log(error))
    return {step: {network: float(np.exp(np.mean(values))) for network, values in of.items()}
            for step, of in logs.items()}


def table(found):
    rows, before = [], None
    for step, errors in found.items():
        row = [step]
        for network in NETWORKS:
            change = f", {errors[network] / before[network]:.2f}x" if before else ""
            row.append(f"{errors[network]:.1e}{change}")
        rows.append(row)
        before = errors
    return table_text(["what is taken away", *NETWORKS], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", type=Path, default=_ROOT / "build/recorded/gradients.npz")
    parser.add_argument("--mean", type=float, default=5)
    parser.add_argument("--ranks", nargs="+", type=int, default=[4, 16])
    parser.add_argument("--refresh-docs", action="store_true")
    arguments = parser.parse_args()
    text = table(measure(recorded(arguments.record)[0], arguments.mean, arguments.ranks))
    print(text)
    if arguments.refresh_docs:
        write_table("losses.py", text)


if __name__ == "__main__":
    main()
