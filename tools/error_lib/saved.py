"""A table as JSON and back, so that runs can be put together and drawn again."""

import json
from dataclasses import asdict

from .claims import CLAIMS, check
from .executors import Refusal
from .measure import Cell
from .peers import PEERS


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
    """One table of the JSON texts of several runs; a pair of data and ranks is in one run only."""
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
