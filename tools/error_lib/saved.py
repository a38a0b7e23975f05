"""A table as JSON and back, so that runs can be put together and drawn again."""

import json
import re
from dataclasses import asdict

from .claims import CLAIMS, check
from .executors import Refusal
from .measure import Cell
from .peers import PEERS
from .report import labels


def json_text(table):
    """All numbers, one per seed, with the claims and the sources of peers."""
    rows = [{"data": data, "ranks": rank_count, "scheme": name, "error": cell.error,
             **asdict(cell)} for (data, rank_count), cells in table.items()
            for name, cell in cells.items()]
    claims = [{"claim": claim.text, "holds": one.holds, "instance": one.text}
              for claim in CLAIMS for one in check(claim, table)]
    peers = {peer.name: {"source": peer.source, "unbiased": peer.unbiased} for peer in PEERS}
    return json.dumps({"peers": peers, "claims": claims, "rows": rows}, indent=1) + "\n"


def table_of(texts):
    """One table of the JSON files of several runs; a pair of data and ranks is in one run only."""
    table = {}
    for text in texts:
        group = {}
        for row in json.loads(text)["rows"]:
            place = (row.pop("data"), row.pop("ranks"))
            scheme, _ = row.pop("scheme"), row.pop("error")
            for refusal in ("refusal", "bound_refusal"):
                row[refusal] = Refusal(**row[refusal]) if row[refusal] else None
            group.setdefault(place, {})[scheme] = Cell(**row)
        twice = table.keys() & group.keys()
        if twice:
            raise ValueError(f"two runs have measured {sorted(twice)}")
        table |= group
    order = list(dict.fromkeys(data for data, _ in table))
    return dict(sorted(table.items(), key=lambda item: (item[0][1], order.index(item[0][0]))))


def table_of_page(text):
    """The errors of docs/results/errors.md, two digits each, and the bytes of its middle number of
    ranks, which stand for all of them. Enough for the pictures."""
    names = {label: name for name, label in labels().items()}
    table = {}
    for title, body in re.findall(r"^### (.+)\n\n((?:\|.*\n)+)", text, re.MULTILINE):
        network = title.removeprefix("Gradients of ")
        head, _, *rows = [line.strip("| ").split(" | ") for line in body.splitlines()]
        for label, size, *errors in rows:
            for column, error in zip(head[2:], errors, strict=True):
                data, _, ranks = column.rpartition(", ")
                data = f"{network} {data}" if network != title else data
                cell = Cell(bytes_per_value=float(size))
                if error[0].isdigit():
                    cell.errors.append(float(error))
                else:
                    cell.refusal = Refusal(error, "")
                table.setdefault((data, int(ranks)), {})[names[label]] = cell
    return table
