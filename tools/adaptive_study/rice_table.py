#!/usr/bin/env python3
"""Which targets about square errors variants of Rice codes reach: a table of adaptive.md.

    GQSGD_LIBRARY=B/libgqsgd.so python3 tools/adaptive_study/rice_table.py --refresh-docs

On the gradients that record.py made, 10, 50 and 100 % of three trainings, 4, 8 and 16 ranks, one
draw of rounding. A minute on one core. Needs numpy and the library.
"""

import argparse
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT / folder) for folder in ("tools", "bindings/python", "reference")]

from adaptive_study.data import recorded  # noqa: E402
from adaptive_study.limit_table import late_cases  # noqa: E402
from adaptive_study.measure import errors_of  # noqa: E402
from adaptive_study.page import write_table  # noqa: E402
from adaptive_study.report import table_text  # noqa: E402
from adaptive_study.schemes import (  # noqa: E402
    INT4_MEAN, MAIN, NEAREST_7, NEAREST_8, RANDOM_7, rice)

VARIANTS = {
    "one step for all ranks": {},
    "a step of its own for each rank, 0.4 bits down": {"shift": 0.4, "own_steps": True},
    "the same, subtractive down": {"shift": 0.4, "own_steps": True, "subtractive": True},
}
# Bits up and down, the mean of adaptive widths with as many, the other scheme, and its error over
# that of Rice codes at least.
TARGETS = (
    ("8.38", 4, NEAREST_7, 2.5), ("8.38", 4, NEAREST_8, 2.5), ("9.00", INT4_MEAN, NEAREST_7, 2.5),
    ("9.00", INT4_MEAN, NEAREST_8, 2.5), ("8.38", 4, RANDOM_7, 5), ("9.00", INT4_MEAN, RANDOM_7, 5),
    ("10.38", 5, "rotated-4-8", 8), ("12.38", 6, "blocks-8", 1 / 2.5))


def ratios_of(data, draws):
    """{(variant, number of the target): the other's error over that of Rice codes}."""
    others = {other: errors_of(MAIN[other].run(data, draws), data).square
              for other in {other for _, _, other, _ in TARGETS}}
    found = {}
    means = {mean for _, mean, _, _ in TARGETS}
    for variant, changed in VARIANTS.items():
        own = {mean: errors_of(rice(mean, **changed).run(data, draws), data).square
               for mean in means}
        for number, (_, mean, other, _) in enumerate(TARGETS):
            found[variant, number] = others[other] / own[mean]
    return found


def measured(gradients, rank_counts=(4, 8, 16)):
    """{(variant, number of the target): ratios of all cases}."""
    found = {}
    for _, _, data, draws in late_cases(gradients, rank_counts):
        for key, ratio in ratios_of(data, draws).items():
            found.setdefault(key, []).append(ratio)
    return found


def table(ratios):
    header = ("bits", "below", "asked", *(f"{variant}: cases, worst" for variant in VARIANTS))
    rows = []
    for number, (bits, _, other, asked) in enumerate(TARGETS):
        cells = []
        for variant in VARIANTS:
            cases = ratios[variant, number]
            holds = sum(each >= asked for each in cases)
            verdict = "PASS" if holds == len(cases) else "FAIL"
            cells.append(f"{verdict} {holds} of {len(cases)}, {min(cases):.2f}x")
        rows.append((bits, other, f"{asked:.1f}x", *cells))
    return table_text(header, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=Path, default=_ROOT / "build/recorded/gradients.npz")
    parser.add_argument("--refresh-docs", action="store_true")
    arguments = parser.parse_args()
    gradients, _, _ = recorded(arguments.record)
    text = table(measured(gradients))
    print(text)
    if arguments.refresh_docs:
        write_table(Path(__file__).name, text)


if __name__ == "__main__":
    main()
