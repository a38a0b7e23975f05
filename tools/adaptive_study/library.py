#!/usr/bin/env python3
"""Errors of the library's presets on whole gradients, beside other systems.

    python3 tools/adaptive_study/record.py --values 100000000 --out build/recorded/full.npz
    GQSGD_LIBRARY=B/libgqsgd.so python3 tools/adaptive_study/library.py --refresh-docs

Six minutes on one core, four of them for the gradients. Writes the table of
docs/results/adaptive.md between the marks that name this file.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT / "tools"), str(_ROOT / "bindings/python"), str(_ROOT / "reference")]

from adaptive_study.codecs import draws_of  # noqa: E402
from adaptive_study.data import recorded  # noqa: E402
from adaptive_study.page import write_table  # noqa: E402
from adaptive_study.rivals import DynamiqLike, Peer, Preset  # noqa: E402
from adaptive_study.schemes import NEAREST_7, NEAREST_8, RANDOM_7  # noqa: E402

NETWORKS, TIMES = ("lm", "gpt", "cnn", "clicks"), ("10%", "50%", "100%")
PRESETS = ("adaptive-3", "adaptive-4", "adaptive-4,mean_bits=4.5", "adaptive-5", "adaptive-6",
           "adaptive-5,rounding_down=subtractive", "rice-3", "rice-4", "rice-4,mean_bits=4.5",
           "rice-5", "rice-6", "blocks-8", "blocks-8,bits=4", "rotated-4",
           "rotated-4-8")
SCHEMES = {**{name: Preset(name) for name in PRESETS},
           **{name: Peer(name) for name in (NEAREST_7, NEAREST_8, RANDOM_7)},
           "DynamiQ-like 5 bits": DynamiqLike(5), "DynamiQ-like 6 bits": DynamiqLike(6)}


def error_of(outcome, data):
    return np.sum((outcome.mean - data.exact)**2) / np.sum(data.exact**2)


def measure(file, ranks):
    """{scheme: (bits, {network: geometric mean of the square errors over times and ranks})}."""
    logs = {name: {} for name in SCHEMES}
    bits = {}
    for name, whole in recorded(file)[0].items():
        network, time = name.split()
        if time not in TIMES:
            continue
        for count in ranks:
            data = whole.of_ranks(count)
            draws = draws_of(data, 1)
            for scheme, codec in SCHEMES.items():
                outcome = codec.run(data, draws)
                bits[scheme] = outcome.bits_up + outcome.bits_down
                logs[scheme].setdefault(network, []).append(np.log(error_of(outcome, data)))
            print(name, count, "ranks", flush=True)
    return {scheme: (bits[scheme], {network: float(np.exp(np.mean(found)))
                                    for network, found in of.items()})
            for scheme, of in logs.items()}


def table(found):
    lines = ["| scheme | bits up + down | " + " | ".join(NETWORKS) + " |",
             "|---" * (len(NETWORKS) + 2) + "|"]
    for scheme, (bits, errors) in found.items():
        name = f"`{scheme}`" if scheme in PRESETS else scheme
        cells = " | ".join(f"{errors[network]:.1e}" for network in NETWORKS)
        lines.append(f"| {name} | {bits:.2f} | {cells} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--file", type=Path, default=Path("build/recorded/full.npz"))
    parser.add_argument("--ranks", nargs="+", type=int, default=[4, 16])
    parser.add_argument("--refresh-docs", action="store_true")
    arguments = parser.parse_args()
    text = table(measure(arguments.file, arguments.ranks))
    print(text)
    if arguments.refresh_docs:
        write_table("library.py", text)


if __name__ == "__main__":
    main()
