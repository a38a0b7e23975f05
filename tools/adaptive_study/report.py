"""The tables of docs/results/adaptive.md from rows of the study."""

import math

from .measure import Errors
from .targets import RICE_TARGETS, TARGETS, lines, replaced, summary

_BEGIN, _END = "<!-- tables: written by tools/adaptive_study/study.py -->", "<!-- end of tables -->"
_LATE = ("10%", "50%", "100%")
_NUMBERS = ("square", "near_median", "near_high", "tensor_median", "tensor_high")


def report(rows, source):
    """Everything as Markdown."""
    tables = tables_of(rows)
    parts = [recorded_section(source)]
    if "main" in tables:
        main = tables["main"]
        parts += [targets_section(main), main_section(main), near_section(main),
                  owner_section(main)]
    if "exponents" in tables:
        parts.append(exponent_section(tables["exponents"]))
    if "variants" in tables:
        parts.append(variant_section(tables["variants"]))
    if "rice" in tables:
        parts.append(rice_section(tables["rice"]))
    return "\n\n".join(parts) + "\n"


def tables_of(rows):
    """{part: {place: {scheme: Errors}}}."""
    found = {}
    for row in rows:
        values = {name: row[name] for name in Errors.__dataclass_fields__}
        place = found.setdefault(row["part"], {}).setdefault(tuple(row["place"]), {})
        place[row["scheme"]] = Errors(**values)
    return found


def table_text(head, rows):
    lines_of = ["| " + " | ".join(map(str, row)) + " |" for row in (head, ["---"] * len(head))]
    return "\n".join(lines_of + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def recorded_section(source):
    rows = []
    for name, one in source["networks"].items():
        losses = ", ".join(f"{float(share):.0%}: {loss}" for share, loss in one["losses"].items())
        rows.append([name, f"{one['weight_count']:,}", len(one["tensors"]),
                     f"{sum(count for _, count in one['tensors']):,}", one["step_count"],
                     one["batch_size_per_rank"], losses])
    head = ["network", "weights", "tensors recorded", "values recorded", "steps",
            "batch of a rank", "loss at part of the training"]
    return (f"### Recorded gradients\n\nContent digest `{source['digest'][:16]}`; "
            f"{source['seeds']} draws of rounding.\n\n" + table_text(head, rows))


def targets_section(table):
    asked = [one for one in TARGETS if one.ours != "adaptive-3"]
    versions = (("Of the proposed rule", TARGETS),
                ("Of the same with rotations of 128 and a subtractive rounding down, where zeros "
                 "do not stay", replaced(asked, "adaptive-{}, rotated")),
                ("Of exponent 1, the least square error, without a rotation",
                 replaced(asked, "adaptive-{}, exponent 1")),
                ("Of Rice codes in groups of a fixed size, with the same bytes",
                 [*replaced(TARGETS, "rice-{}"), *RICE_TARGETS]))
    texts = [f"{title}:\n\n```text\n" + "\n".join(lines(table, targets)) + "\n```"
             for title, targets in versions]
    return ("### Targets in short\n\nHow many cases hold, and geometric means over them. "
            "\"3x below\" is a third of the other's error, \"3x\" three times it.\n\n"
            + table_text(["target", "proposed rule", "rotated", "exponent 1", "Rice codes"],
                         summary(table, ("adaptive-{}", "adaptive-{}, rotated",
                                         "adaptive-{}, exponent 1", "rice-{}")))
            + "\n\n### Targets\n\n" + "\n\n".join(texts))


def main_section(table):
    """Square errors: a row per scheme, a column per data and number of ranks."""
    parts = []
    for kind in dict.fromkeys(place[0].partition(" ")[0] for place in table):
        places = [place for place in table if place[0].partition(" ")[0] == kind]
        head = ["scheme", "bits up + down",
                *(f"{data.partition(' ')[2] or data}, {count}" for data, count in places)]
        rows = [[name, f"{table[places[0]][name].bits:.2f}",
                 *(f"{table[place][name].square:.1e}" for place in places)]
                for name in table[places[0]]]
        parts.append(f"### Square error: {kind}\n\n" + table_text(head, rows))
    return "\n\n".join(parts)


def near_section(table):
    """What an optimiser like Adam sees, as geometric means over the late gradients."""
    kinds = ("lm", "gpt", "cnn", "clicks")
    head = ["scheme", *(f"{kind}: {what}" for kind in kinds
                        for what in ("median", "90 %", "tensors' 90 %"))]
    rows = []
    for name in next(iter(table.values())):
        row = [name]
        for kind in kinds:
            cells = [cells[name] for (data, _), cells in table.items()
                     if data.partition(" ")[0] == kind and data.partition(" ")[2] in _LATE]
            row += [_short(_geometric(getattr(cell, value) for cell in cells))
                    for value in ("near_median", "near_high", "tensor_high")]
        rows.append(row)
    return ("### Errors beside neighbours and of tensors\n\n"
            "Median and 90th percentile of |error| over the rms of the exact mean in the value's "
            "block; 90th percentile of tensors' own square errors. Geometric means over 10, 50, "
            "100 % and all numbers of ranks.\n\n" + table_text(head, rows))


def owner_section(table):
    """How uneven equal ranges of words are in values."""
    names = ("adaptive-3", "adaptive-4", "adaptive-5", "adaptive-6")
    rows = []
    for kind in dict.fromkeys(place[0].partition(" ")[0] for place in table):
        of_kind = {place: cells for place, cells in table.items()
                   if place[0].partition(" ")[0] == kind and place[1] == 16}
        rows.append([kind, *(f"{max(cells[name].owner_blocks for cells in of_kind.values()):.2f}"
                             for name in names)])
    return ("### Values of an owner\n\nMost values of an owner over their mean with 16 ranks, "
            "where each has the same words; the largest of all times of a training.\n\n"
            + table_text(["data", *names], rows))


def exponent_section(table):
    return ("### Exponent and least width\n\nOver those of fixed widths of the same mean, as "
            "geometric means over 10, 50, 100 % and 4 and 16 ranks: square error; median and 90th "
            "percentile beside neighbours; 90th percentile of tensors.\n\n"
            + _ratios(table, "fixed", ("lm", "gpt", "cnn", "clicks"),
                      ("square", "near_median", "near_high", "tensor_high")))


def variant_section(table):
    return ("### Variants\n\nOver those of the proposed rule with the same bytes, as geometric "
            "means over 4 and 16 ranks and, of gradients, 10, 50, 100 %: square error; 90th "
            "percentile beside neighbours.\n\n"
            + _ratios(table, "proposed", ("lm", "gpt", "cnn", "clicks", "gauss", "heavy", "layers"),
                      ("square", "near_high")))


def rice_section(table):
    return ("### Rice codes: variants\n\nOver those of Rice codes in groups of 256 blocks and "
            "cells of 32, 0.2 bits less up and more down than their mean, with the same bytes, as "
            "geometric means over 4 and 16 ranks and, of gradients, 10, 50, 100 %: square error; "
            "90th percentile beside neighbours.\n\n"
            + _ratios(table, "proposed", ("lm", "gpt", "cnn", "clicks", "gauss", "heavy", "layers"),
                      ("square", "near_high")))


def _ratios(table, base, kinds, values):
    parts = []
    for mean in dict.fromkeys(place[2] for place in table):
        schemes = [name for name in next(cells for place, cells in table.items()
                                         if place[2] == mean) if name != base]
        rows = []
        for name in schemes:
            row = [name]
            for kind in kinds:
                cells = [cells for place, cells in table.items()
                         if place[2] == mean and place[0].partition(" ")[0] == kind]
                row.append("; ".join(_short(_geometric(
                    _ratio(getattr(one[name], value), getattr(one[base], value))
                    for one in cells)) for value in values))
            rows.append(row)
        parts.append(f"Mean of {mean} bits:\n\n" + table_text([f"mean {mean}", *kinds], rows))
    return "\n\n".join(parts)


def _ratio(a, b):
    return a / b if b > 0 else (1.0 if a == 0 else math.inf)


def _geometric(values):
    values = list(values)
    if not values or min(values) <= 0:
        return 0.0 if values else math.nan
    return math.exp(sum(map(math.log, values)) / len(values))


def _short(value):
    if 0.095 <= value < 1000:
        return f"{value:.2f}"
    return f"{value:.1e}"


def refresh_page(path, text):
    """Replaces what stands between the page's two marks."""
    before, begin, rest = path.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{path} has no lines {_BEGIN} and {_END}")
    path.write_text(f"{before}{begin}\n\n{text}\n{end}{after}")
