#!/usr/bin/env python3
"""Five statements of the paper that do not hold, each by numbers: the table of
docs/results/paper.md.

    GQSGD_LIBRARY=B/libgqsgd.so tools/paper_check.py

Where the space is small enough the numbers are exact; the rest is drawn from a seed.
"""

import sys
from fractions import Fraction
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bindings/python")]

import gqsgd  # noqa: E402
import numpy as np  # noqa: E402
from study_lib.markdown import table  # noqa: E402


def wrapped_sum(rank_count=4):
    """(sum in int8 of the codes of equal ranks at the norm, 127 each; the library's mean of
    ones)."""
    total = np.zeros(1, np.int8)
    for _ in range(rank_count):
        total += np.int8(127)
    ones = [np.ones(64, np.float32)] * rank_count
    mean = gqsgd.simulate(ones, gqsgd.Quantizer("paper-gl8"), schedule="ring")
    return int(total[0]), float(mean.mean())


def ring_zero_probability(rank_count):
    """Of equal ranks at the norm, whose values are 1/(2n) in the paper: that the exponent of their
    sum along a ring reaches 0, which stands for the value zero. Exact, by Algorithm 1. rank_count
    is a power of two."""
    own = (2 * rank_count).bit_length() - 1
    chances = {own: Fraction(1)}  # of the exponents of the sum so far
    for _ in range(rank_count - 1):
        after = {}
        for exponent, chance in chances.items():
            up = Fraction(1, 2**abs(exponent - own)) if exponent else Fraction(0)
            # A sum that is zero takes what comes; else the smaller exponent may lose one.
            base = min(exponent, own) if exponent else own
            for result, share in ((base - 1, up), (base, 1 - up)):
                if share:
                    after[result] = after.get(result, 0) + chance * share
        chances = after
    return chances.get(0, Fraction(0))


def ring_means(rank_count, draws=4000):
    """(least, mean) of the library's means of ones along a ring."""
    ones = [np.ones(draws, np.float32)] * rank_count
    mean = gqsgd.simulate(ones, gqsgd.Quantizer("paper-ge8", seed=1), schedule="ring")
    return float(mean.min()), float(mean.mean())


def nonzero_codes(rank_count=4, value_count=10_000, levels=7):
    """(codes of equal values other than zero, the paper's bound, the library's)."""
    root = np.sqrt(rank_count * value_count)
    scaled = np.full(rank_count * value_count, levels / root)  # of a norm of order 2
    found = int((np.random.default_rng(1).random(scaled.size) < scaled).sum())
    q = gqsgd.Quantizer("levels=linear,bits=4,norm=2:2")
    bound = gqsgd.sparsity_bound(q, rank_count, value_count, schedule="sparse")
    return found, levels**2 + root, bound


def three_equal_ranks():
    """theta of three equal ranks at a level, exactly: 1 + 1 is 2, 2 + 1 is 2 or 4. With the paper's
    bound, (9/8)^2 / (8 n), and the library's."""
    mean_square = Fraction((2 - 3)**2 + (4 - 3)**2, 2) / 9  # of G = sum / 3, whose mean is 1
    paper = Fraction(9, 8)**2 / (8 * 3)
    bound = gqsgd.variance_bound(gqsgd.Quantizer("paper-ge8"), 3, 1, schedule="ring")
    return float(mean_square), float(paper), bound


def iteration_factors(rank_count=16, value_count=1_000_000):
    """1 + n theta of the paper's example, by its formula and by the library's bound of a tree."""
    theta = 1 / (8 * rank_count) + np.sqrt(value_count / rank_count) / 2.0**126
    bound = gqsgd.variance_bound(gqsgd.Quantizer("paper-ge8"), rank_count, value_count,
                                 schedule="tree")
    return 1 + rank_count**1.17 * theta, 1 + rank_count * bound


def rows():
    wrapped, mean = wrapped_sum()
    nonzero, sparse_paper, sparse_bound = nonzero_codes()
    variance, variance_paper, variance_bound = three_equal_ranks()
    factor_paper, factor = iteration_factors()
    least, ring_mean = ring_means(4)
    return [
        ["8-bit linear codes with s = 255 levels are added as they are",
         f"4 ranks at the norm, codes of 127: {wrapped} in 8 bits",
         f"levels are shared: floor(127/n) for each rank; the mean of ones is {mean:.4f}"],
        ["dividing by 2n keeps every exponent negative",
         f"along a ring 4 equal ranks at the norm become zero with probability "
         f"{ring_zero_probability(4)}",
         f"headroom is the depth of the schedule; 4,000 means of ones are {least:.2f} or more, "
         f"{ring_mean:.3f} in the mean"],
        ["at most s^2 + sqrt(nd) codes are not zero (p = q = 2)",
         f"n = 4, d = 10,000, s = 7, equal values: {nonzero:,} against {sparse_paper:,.0f}",
         f"s^2 + s sqrt(nd) = {sparse_bound:,.0f}, in expectation"],
        ["reductions multiply the variance theta by (9/8)^depth",
         f"three equal ranks, two reductions: {variance:.4f} against {variance_paper:.4f}",
         f"1 + theta is what grows: {variance_bound:.4f}"],
        ["with n = 16, d = 10^6 and 8 bits, iterations grow by 20 % at worst",
         f"1 + n theta = {factor_paper:.2f} by the paper's formula, which has the error above",
         f"{factor:.1f} by the bound that holds; it is loose"],
    ]


def main():
    print(table(["the paper says", "what happens", "in this library"], rows()))


if __name__ == "__main__":
    sys.exit(main())
