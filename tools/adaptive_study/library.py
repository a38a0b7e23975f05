#!/usr/bin/env python3
"""Errors of the library's presets on whole gradients, beside other systems, and whether they are
what was asked of widths by block.

    python3 tools/adaptive_study/record.py --values 100000000 --out build/recorded/full.npz
    GQSGD_LIBRARY=B/libgqsgd.so python3 tools/adaptive_study/library.py --refresh-docs

Three minutes on one core (Zen 4), two of them for the gradients. Writes the tables of
docs/results/adaptive.md between the marks that name this file.
"""

import argparse
import re
import statistics
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT / "tools"), str(_ROOT / "bindings/python"), str(_ROOT / "reference")]

from adaptive_study.codecs import draws_of  # noqa: E402
from adaptive_study.data import recorded  # noqa: E402
from adaptive_study.measure import errors_of  # noqa: E402
from adaptive_study.page import write_table  # noqa: E402
from adaptive_study.rivals import DynamiqLike, Peer, Preset  # noqa: E402
from adaptive_study.schemes import MAIN, NEAREST_7, NEAREST_8, RANDOM_7  # noqa: E402
from adaptive_study.targets import summary  # noqa: E402

NETWORKS, TIMES = ("lm", "gpt", "cnn", "clicks"), ("10%", "50%", "100%")
PRESETS = ("adaptive-3", "adaptive-4", "adaptive-4,mean_bits=4.5", "adaptive-5", "adaptive-6",
           "adaptive-5,rounding_down=subtractive", "rice-3", "rice-4", "rice-4,mean_bits=4.5",
           "rice-5", "rice-6", "blocks-8", "blocks-8,bits=4", "rotated-4",
           "rotated-4-8")
FAMILIES = ("adaptive-{}", "rice-{}")  # of presets with 4, 5 and 6 bits
PER_TENSOR = ("per-tensor-4", "per-tensor-5", "per-tensor-6")
SCHEMES = {**{name: Preset(name) for name in PRESETS},
           **{name: Peer(name) for name in (NEAREST_7, NEAREST_8, RANDOM_7)},
           "DynamiQ-like 5 bits": DynamiqLike(5), "DynamiQ-like 6 bits": DynamiqLike(6),
           **{name: MAIN[name] for name in PER_TENSOR}}


def measure(file, ranks):
    """{("lm 10%", ranks): {scheme: Errors}}."""
    found = {}
    for name, whole in recorded(file)[0].items():
        if name.split()[1] not in TIMES:
            continue
        for count in ranks:
            data = whole.of_ranks(count)
            draws = draws_of(data, 1)
            found[name, count] = {scheme: errors_of(codec.run(data, draws), data)
                                  for scheme, codec in SCHEMES.items()}
            print(name, count, "ranks", flush=True)
    return found


def error_table(found):
    """Square errors, geometric means over times and ranks."""
    lines = ["| scheme | bits up + down | " + " | ".join(NETWORKS) + " |",
             "|---" * (len(NETWORKS) + 2) + "|"]
    for scheme in SCHEMES:
        name = f"`{scheme}`" if scheme in PRESETS else scheme
        errors = {network: [one[scheme].square for (data, _), one in found.items()
                            if data.startswith(f"{network} ")] for network in NETWORKS}
        texts = " | ".join(f"{statistics.geometric_mean(errors[network]):.1e}"
                           for network in NETWORKS)
        bits = [one[scheme].bits for one in found.values()][-1]
        lines.append(f"| {name} | {bits:.2f} | {texts} |")
    return "\n".join(lines)


def target_table(found):
    """What was asked of widths by block, and the same of Rice codes of the same bytes."""
    lines = ["| asked | `adaptive-N` | `rice-N` |", "|---|---|---|"]
    for title, *verdicts in summary(found, FAMILIES):
        if set(verdicts) != {"-"}:
            asked = re.sub(r"adaptive-(\d)", r"\1 bits", title, count=1)
            lines.append(f"| {asked} | " + " | ".join(verdicts) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--file", type=Path, default=Path("build/recorded/full.npz"))
    parser.add_argument("--ranks", nargs="+", type=int, default=[4, 8, 16])
    parser.add_argument("--refresh-docs", action="store_true")
    arguments = parser.parse_args()
    found = measure(arguments.file, arguments.ranks)
    text = f"{error_table(found)}\n\n{target_table(found)}"
    print(text)
    if arguments.refresh_docs:
        write_table("library.py", text)


if __name__ == "__main__":
    main()
