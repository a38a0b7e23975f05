#!/usr/bin/env python3
"""What any code of as many bytes could reach at most of the targets: a table of adaptive.md.

    python3 tools/adaptive_study/limit_table.py --refresh-docs

Reads the gradients that record.py made and the errors that study.py measured on them. Two
minutes on one core. Needs numpy.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT / folder) for folder in ("tools", "bindings/python", "reference")]

from adaptive_study.codecs import draws_of  # noqa: E402
from adaptive_study.data import BLOCK, recorded  # noqa: E402
from adaptive_study.entropy_coded import EntropyCoded  # noqa: E402
from adaptive_study.limits import ideal_error, least_error, parts_of  # noqa: E402
from adaptive_study.measure import errors_of  # noqa: E402
from adaptive_study.page import write_table  # noqa: E402
from adaptive_study.report import table_text, tables_of  # noqa: E402
from adaptive_study.targets import LATE, TARGETS, instances_of  # noqa: E402

NETWORKS = ("lm", "gpt", "cnn")
KINDS = ("ideal", "gauss", "any")  # ideal codes; limits of Gaussian values, of any
SIDE_BITS = 3 * 16 / BLOCK  # norms and scales, up and down together


def late_cases(gradients, rank_counts):
    """(network, data of 16 ranks, data of so many, draws) of all times that targets are about."""
    for name, whole in gradients.items():
        network, share = name.split()
        if network not in NETWORKS or share not in LATE:
            continue
        for rank_count in rank_counts:
            data = whole.of_ranks(rank_count)
            yield network, whole, data, draws_of(data, 0)


def limits_of(data, rank_count, bits):
    """{kind: least |G - mean|^2 / |mean|^2} of `bits` a value, up and down together."""
    return limits_of_parts(parts_of(data, rank_count), rank_count, bits, data.inputs.shape[1])


def limits_of_parts(parts, rank_count, bits, value_count):
    whole = bits * value_count
    energy = np.sum(parts.counts * parts.mean_energy)
    found = {"ideal": ideal_error(parts, rank_count, whole),
             "gauss": least_error(parts.between, parts.counts, rank_count, whole),
             "any": least_error(parts.dense_between, parts.dense_counts, rank_count, whole,
                                parts.shape)}
    return {kind: error / energy for kind, error in found.items()}


def asked():
    """Targets about square errors of gradients."""
    return [one for one in TARGETS if one.value == "square" and one.data == NETWORKS]


def limits_for(table, gradients):
    """{(data, ranks, scheme): limits of its bits, and what codes at their entropy have}."""
    found = {}
    for name, rank_count in asked()[0].places(table):
        data = gradients[name]
        parts = parts_of(data, rank_count)
        bits = {target.ours: table[name, rank_count][target.ours].bits for target in asked()}
        part = data.of_ranks(rank_count)
        of_bits = {one: {**limits_of_parts(parts, rank_count, one, data.inputs.shape[1]),
                         "entropy": errors_of(EntropyCoded(one - SIDE_BITS).run(
                             part, draws_of(part, 0)), part).square}
                   for one in set(bits.values())}
        found.update({(name, rank_count, ours): of_bits[one] for ours, one in bits.items()})
    return found


def reach(target, table, limits):
    """{(network, share): {"ours" and kinds: how far below the other, at the worst place}}."""
    found = {}
    for ratio, _, place, _, _ in instances_of(target, table):
        other = table[place][target.ours].square / ratio
        factors = {"ours": 1 / ratio, **{kind: other / error for kind, error
                                         in limits[(*place, target.ours)].items()}}
        cell = found.setdefault(tuple(place[0].split()), factors)
        found[tuple(place[0].split())] = {kind: min(cell[kind], factors[kind]) for kind in factors}
    return found


def beyond(target, table, limits):
    """(comparisons that no code reaches, that ideal codes do not, that entropy codes do not,
    all)."""
    counts, instances = [0, 0, 0], instances_of(target, table)
    for ratio, _, place, _, _ in instances:
        wanted = table[place][target.ours].square / ratio * target.factor
        for number, kind in enumerate(("any", "ideal", "entropy")):
            counts[number] += limits[(*place, target.ours)][kind] > wanted
    return (*counts, len(instances))


def target_table(table, limits):
    rows = []
    for target in asked():
        cells = reach(target, table, limits)
        *counts, all_count = beyond(target, table, limits)
        for network in NETWORKS:
            row = [target.title, network] if network == NETWORKS[0] else ["", network]
            row += [_cell(cells[network, share], 1 / target.factor) for share in LATE]
            rows.append(row + [", ".join(map(str, counts)) + f" of {all_count}"
                               if network == NETWORKS[0] else ""])
    return table_text(["target", "network", *LATE, "beyond reach"], rows)


def _cell(factors, wanted):
    text = " / ".join(_short(factors[kind]) for kind in ("ours", "entropy", "ideal", "any"))
    return f"**{text}**" if factors["any"] < wanted else text


def _short(factor):
    return f"{factor:.0f}" if factor >= 9.95 else f"{factor:.2g}"


def room_table(table, limits):
    """How far schemes are above ideal codes and the limit, as geometric means over ranks."""
    rows = []
    for mean in (4, 5, 6):
        for network in NETWORKS:
            for suffix in ("", ", exponent 1", ", rotated"):
                row = [f"adaptive-{mean}{suffix}", network]
                for share in LATE:
                    places = [place for place in table if place[0] == f"{network} {share}"]
                    row.append(" / ".join(_short(_room(table, limits, places, mean, suffix, kind))
                                          for kind in KINDS))
                rows.append(row)
    return table_text(["scheme", "network", *LATE], rows)


def _room(table, limits, places, mean, suffix, kind):
    logarithms = [math.log(table[place][f"adaptive-{mean}{suffix}"].square
                           / limits[(*place, f"adaptive-{mean}")][kind]) for place in places]
    return math.exp(sum(logarithms) / len(logarithms))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", type=Path, default=_ROOT / "build/recorded/gradients.npz")
    parser.add_argument("--saved", type=Path, default=_ROOT / "build/adaptive/adaptive.json")
    parser.add_argument("--refresh-docs", action="store_true")
    arguments = parser.parse_args()
    gradients, _, digest = recorded(arguments.record)
    saved = json.loads(arguments.saved.read_text())
    if saved["source"]["digest"] != digest:
        raise SystemExit(f"{arguments.saved} has errors of other gradients than {arguments.record};"
                         " run study.py again")
    table = tables_of(saved["rows"])["main"]
    limits = limits_for(table, gradients)
    text = f"{target_table(table, limits)}\n\n{room_table(table, limits)}"
    print(text)
    if arguments.refresh_docs:
        write_table("limit_table.py", text)


if __name__ == "__main__":
    main()
