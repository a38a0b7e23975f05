"""Cases for whole allreduces in a hierarchy of nodes."""

from gqsgd_reference.allreduce import Request
from gqsgd_reference.hierarchy import nodes_string
from gqsgd_reference.random import Call

from .presets import KEYS, PAPER_FORMATS, PRESETS, record

DESCRIPTION = f"""
Whole allreduces of the hierarchical schedule (FORMAT.md sections 1 to 13).
nodes: an id for each rank, as in a communicator's options.{KEYS}"""

_CALL = Call(seed=0x243F6A8885A308D3, stream_id=1, step=20, index=3)
_NODES = {"1_3": (0, 1, 1, 1), "2_2_2": (0, 1, 2, 0, 1, 2), "3_5": (4, 4, 9, 9, 4, 9, 9, 9),
          "4_2_1": (0, 0, 0, 0, 7, 7, 8), "flat": (3, 3, 3), "alone": (0, 1, 2)}


def _formats():
    """(name, fields) of formats: the paper's, the presets', and others for the way down."""
    for levels, bits, combine in (*PAPER_FORMATS, ("none", 32, "sum")):
        yield f"{levels}{bits}_{combine}", {"levels": levels, "bits": bits, "combine": combine}
    yield from PRESETS.items()
    down = {"levels": "exponential", "bits": 8, "combine": "sum", "bits_down": 4}
    yield "exponential8_down4", down
    yield "exponential8_down4_rescale", {**down, "block": 64, "rescale": True}
    yield "nearest", {"levels": "linear", "bits": 4, "combine": "average", "rounding": "nearest"}


def _means():
    """More formats that encode means of nodes as results."""
    linear = {"levels": "linear", "combine": "exact"}
    yield "linear4_down8", {**linear, "bits": 4, "bits_down": 8}
    yield "linear8_down4_rescale", {**linear, "bits": 8, "bits_down": 4, "block": 2048,
                                    "rescale": True}
    yield "linear8_rescale_nearest", {**linear, "bits": 8, "block": 32, "rescale": True,
                                      "rounding": "nearest"}


def hierarchies():
    """Every format on every kind of nodes; counts around shards, and shards that are empty."""
    records = []
    for place, (name, nodes) in enumerate(_NODES.items()):
        means = list(_means())[place:place + 1]
        for turn, (chosen, fields) in enumerate([*_formats(), *means]):
            value_count = (700, 5000, 70)[(place + turn) % 3]
            request = Request("hierarchical", op=("mean", "sum")[turn % 2], call=_CALL,
                              nodes=nodes, **fields)
            one = record(f"{name}_{chosen}_{value_count}", request, len(nodes), value_count, 31,
                         value_count == 70)
            records.append({**one, "nodes": nodes_string(nodes)})
    return records


FILES = {"allreduce_hierarchical.txt": (DESCRIPTION, hierarchies)}
