"""The table as Markdown, and what the run says of claims, bounds and the reference."""

import math
import statistics
from collections import Counter

from .claims import MADE_UP, verdict_lines
from .generators import GENERATORS
from .peers import PEERS
from .schemes import SCHEMES

OUTSIDE_CLAIMS = set(GENERATORS) - set(MADE_UP)
_BEGIN, _END = "<!-- tables: written by tools/error_table -->", "<!-- end of tables -->"


def report(table):
    """Everything, as Markdown."""
    data = list(dict.fromkeys(name for name, _ in table))
    parts = [
        seeds_text(table),
        "### Claims\n\n```text\n" + "\n".join(verdict_lines(table)) + "\n```",
        "### Library, reference and bounds\n\n```text\n" + "\n".join(
            [*agreement_lines(table), *bound_lines(table)]) + "\n```",
        *(section(table, title, kinds) for title, kinds in sections(data).items())]
    refused = refusal_lines(table)
    if refused:
        parts.append("### Refused\n\n" + "\n".join(refused))
    return "\n\n".join(parts) + "\n"


def seeds_text(table):
    """How many seeds: of most data, and of those that were measured with another number."""
    counts = {place: max(len(cell.errors) for cell in cells.values())
              for place, cells in table.items()}
    most = Counter(counts.values()).most_common(1)[0][0]
    others = {}  # (seeds, network or kind of made-up data): numbers of ranks
    for (data, rank_count), seeds in counts.items():
        if seeds != most:
            others.setdefault((seeds, data.partition(" step ")[0]), set()).add(rank_count)
    alike = {}  # (seeds, numbers of ranks): networks and kinds
    for (seeds, kind), ranks in others.items():
        alike.setdefault((seeds, tuple(sorted(ranks))), []).append(kind)
    parts = [str(most)] + [f"{seeds} for {', '.join(kinds)} of {', '.join(map(str, ranks))} ranks"
                           for (seeds, ranks), kinds in alike.items()]
    return "Seeds: " + "; ".join(parts) + "."


def sections(data):
    """{title: kinds of data that share a table}: a network's steps, what the claims are about."""
    found = {}
    for name in data:
        network, _, step = name.partition(" step ")
        title = f"Gradients of {network}" if step else "Made-up data"
        if name in OUTSIDE_CLAIMS:
            title = "Data of zeros"
        found.setdefault(title, []).append(name)
    return found


def section(table, title, data):
    """A row per scheme, columns of data and ranks; bytes for the middle number of ranks."""
    counts = sorted({n for name, n in table if name in data})
    middle = counts[(len(counts) - 1) // 2]
    head = ["scheme", f"bytes, n = {middle}",
            *(f"{name.rpartition('step ')[1]}{name.rpartition('step ')[2]}, {n}"
              for name in data for n in counts)]
    rows = [head, ["---"] * len(head)]
    for name, label in labels().items():
        if name not in table[data[0], middle]:
            continue  # a page from before there was this scheme
        errors = [_error_text(table[kind, n][name]) for kind in data for n in counts]
        rows.append([label, f"{table[data[0], middle][name].bytes_per_value:.2f}", *errors])
    return f"### {title}\n\n" + "\n".join("| " + " | ".join(row) + " |" for row in rows)


def labels():
    """{scheme's name: how a table calls it}: the library's first."""
    ours = {scheme.name: f"`{scheme.spec}` {scheme.schedule}" for scheme in SCHEMES}
    return {**ours, **{peer.name: peer.name + ("" if peer.unbiased else " (biased)")
                       for peer in PEERS}}


def _error_text(cell):
    return cell.refusal.status if cell.refusal else f"{cell.error:.1e}"


def refusal_lines(table):
    """One line per scheme and reason, with where it was refused."""
    places = {}
    for (data, rank_count), cells in table.items():
        for name, cell in cells.items():
            if cell.refusal:
                key = (name, cell.refusal.status, cell.refusal.sentence)
                places.setdefault(key, set()).add(rank_count)
    return [f"- `{name}`, n = {', '.join(map(str, sorted(counts)))}: {status}: {sentence}"
            for (name, status, sentence), counts in places.items()]


def agreement_lines(table):
    """Library against reference, per scheme: the same bits, or how far apart."""
    lines = []
    for scheme in SCHEMES:
        cells = [cells[scheme.name] for cells in table.values()]
        same = [bit for cell in cells for bit in cell.same_bits]
        alone = sum(len(cell.reference_errors) for cell in cells) - len(same)
        if same:
            apart = "" if all(same) else f", errors apart by {_largest_gap(cells):.2%}"
            lines.append(f"{'PASS' if all(same) else 'FAIL'} {scheme.name}: library and reference "
                         f"have the same bits in {sum(same)} of {len(same)} calls{apart}")
        elif alone:
            lines.append(f"NOT RUN {scheme.name}: {alone} calls by the reference alone, "
                         f"error {_range([e for c in cells for e in c.reference_errors])}")
    return lines


def _largest_gap(cells):
    """Of the relative differences of errors of equal calls."""
    return max(abs(ours / theirs - 1) for cell in cells if cell.same_bits
               for ours, theirs in zip(cell.errors, cell.reference_errors) if theirs > 0)


def _range(values):
    return f"{min(values):.1e} to {max(values):.1e}"


def bound_lines(table):
    """Mean error over its proven bound, the largest of all data and ranks.

    A bound is of an expectation, and heavy data have seeds far above their mean: it is broken where
    three standard errors of the mean do not explain what is above it.
    """
    lines = []
    for scheme in SCHEMES:
        shares = {place: _mean_and_deviation(cells[scheme.name].bound_shares)
                  for place, cells in table.items() if cells[scheme.name].bound_shares}
        if shares:
            data, rank_count = max(shares, key=lambda place: shares[place][0])
            share, deviation = shares[data, rank_count]
            broken = any(mean > 1 + 3 * off for mean, off in shares.values())
            word = "FAIL" if broken else "PASS" if share <= 1 else "FEW SEEDS"
            lines.append(f"{word} {scheme.name}: at most {share:.2f} +- {deviation:.2f} of its "
                         f"bound ({data}, n = {rank_count})")
        reasons = {cells[scheme.name].bound_refusal.sentence for cells in table.values()
                   if cells[scheme.name].bound_refusal}
        lines += [f"NO BOUND {scheme.name}: {reason}" for reason in sorted(reasons)]
    return lines


def _mean_and_deviation(values):
    """The mean and its standard error, infinite for one value."""
    deviation = statistics.stdev(values) if len(values) > 1 else math.inf
    return statistics.fmean(values), deviation / math.sqrt(len(values))


def disagreements(table):
    """The lines of a run that must never be: another result than the reference's, a broken bound.

    Claims that do not hold are findings and are not among them.
    """
    return [line for line in (*agreement_lines(table), *bound_lines(table))
            if line.startswith("FAIL")]


def refresh_page(path, text):
    """Replaces what stands between the page's two marks."""
    before, begin, rest = path.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{path} has no lines {_BEGIN} and {_END}")
    path.write_text(f"{before}{begin}\n\n{text}\n{end}{after}")
