#!/usr/bin/env python3
"""Measures adaptive widths against fixed ones, the library's presets and others: adaptive.md.

    GQSGD_LIBRARY=B/libgqsgd.so python3 tools/adaptive_study/study.py --refresh-docs

Reads the gradients that record.py made. Needs numpy.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tools", "bindings/python", "reference")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from adaptive_study import report  # noqa: E402
from adaptive_study.codecs import draws_of  # noqa: E402
from adaptive_study.data import made_up, recorded  # noqa: E402
from adaptive_study.measure import errors_of, mean_of  # noqa: E402
from adaptive_study.schemes import MAIN, exponent_grid, rice_variants, variants  # noqa: E402

PAGE = ROOT / "docs/results/adaptive.md"
MADE_UP = ("gauss", "heavy", "layers")
GRID_MEANS, VARIANT_MEANS, RICE_MEANS = (3, 4, 5, 6), (4, 5, 6), (5,)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--record", type=Path, default=ROOT / "build/recorded/gradients.npz")
    parser.add_argument("--parts", nargs="+", default=list(TABLES))
    parser.add_argument("--ranks", nargs="*", type=int, default=[4, 8, 16], help="of gradients")
    parser.add_argument("--made-up-ranks", nargs="*", type=int, default=[4, 16, 64])
    parser.add_argument("--seeds", type=int, default=3, help="draws of rounding")
    parser.add_argument("--data", nargs="+", help="names of gradients; default: all of the file")
    parser.add_argument("--saved", type=Path, nargs="+",
                        help="measures nothing; reports what these runs have measured")
    parser.add_argument("--out", type=Path, default=ROOT / "build/adaptive")
    parser.add_argument("--refresh-docs", action="store_true", help=f"rewrites tables of {PAGE}")
    return parser.parse_args()


def measured(schemes, data_of_seed, seed_count):
    """{name: Errors} of schemes on the same data and the same random numbers."""
    found = {name: [] for name in schemes}
    for seed in range(seed_count):
        data = data_of_seed(seed)
        draws = draws_of(data, seed)
        for name, scheme in schemes.items():
            found[name].append(errors_of(scheme.run(data, draws), data))
    return {name: mean_of(errors) for name, errors in found.items()}


def main_table(arguments, gradients):
    table = {}
    for name, data in gradients.items():
        for rank_count in arguments.ranks:
            part = data.of_ranks(rank_count)
            table[name, rank_count] = measured(MAIN, lambda _, part=part: part, arguments.seeds)
        _progress(name)
    for kind in MADE_UP:
        for rank_count in arguments.made_up_ranks:
            table[kind, rank_count] = measured(
                MAIN, lambda seed, kind=kind, count=rank_count: made_up(kind, count, 65536, seed),
                arguments.seeds)
        _progress(kind)
    return table


def late(gradients):
    """Gradients from 10 % of the training on, by which the rule is chosen."""
    return {name: data for name, data in gradients.items() if not name.endswith(" 1%")}


def grid_table(arguments, gradients):
    """{(data, ranks, mean): {"least 2, exponent 0.5": Errors, .., "fixed": Errors}}."""
    table = {}
    for name, data in late(gradients).items():
        for rank_count in (4, 16):
            part = data.of_ranks(rank_count)
            for mean in GRID_MEANS:
                schemes = {f"least {least}, exponent {exponent:g}": scheme
                           for (least, exponent), scheme in exponent_grid(mean).items()}
                schemes["fixed"] = variants(mean)["fixed widths"]
                table[name, rank_count, mean] = measured(schemes, lambda _, part=part: part, 1)
        _progress(f"exponents, {name}")
    return table


def variant_table(arguments, gradients):
    """{(data, ranks, mean): {variant: Errors, .., "proposed": Errors}}."""
    return _variants_of("adaptive", variants, VARIANT_MEANS, gradients)


def rice_table(arguments, gradients):
    """{(data, ranks, mean): {variant: Errors, .., "proposed": Errors}} of Rice codes."""
    return _variants_of("rice", rice_variants, RICE_MEANS, gradients)


def _variants_of(family, variants_of_mean, means, gradients):
    table = {}
    chosen = {**late(gradients), **{kind: None for kind in MADE_UP}}
    for name, data in chosen.items():
        for rank_count in (4, 16):
            part = data.of_ranks(rank_count) if data else made_up(name, rank_count, 65536, 0)
            for mean in means:
                schemes = {"proposed": MAIN[f"{family}-{mean}"], **variants_of_mean(mean)}
                table[name, rank_count, mean] = measured(schemes, lambda _, part=part: part, 1)
        _progress(f"variants of {family}, {name}")
    return table


def _progress(name):
    print(f"{time.process_time():6.0f} s  {name}", file=sys.stderr, flush=True)


TABLES = {"main": main_table, "exponents": grid_table, "variants": variant_table,
          "rice": rice_table}


def rows_of(part, table):
    for place, cells in table.items():
        for scheme, errors in cells.items():
            yield {"part": part, "place": list(place), "scheme": scheme, **asdict(errors)}


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.saved:
        found = [json.loads(path.read_text()) for path in arguments.saved]
        rows = [row for one in found for row in one["rows"]]
        source = found[0]["source"]
    else:
        gradients, description, digest = recorded(arguments.record)
        gradients = {name: data for name, data in gradients.items()
                     if not arguments.data or name in arguments.data}
        rows = [row for part in arguments.parts
                for row in rows_of(part, TABLES[part](arguments, gradients))]
        source = {"digest": digest, "networks": description, "seeds": arguments.seeds}
    (arguments.out / "adaptive.json").write_text(
        json.dumps({"source": source, "rows": rows}, indent=1) + "\n")
    text = report.report(rows, source)
    (arguments.out / "adaptive.md").write_text(text)
    print(text)
    if arguments.refresh_docs:
        report.refresh_page(PAGE, text)


if __name__ == "__main__":
    main()
