"""Calls that vectors of formats whose codes lie in groups are of."""

from gqsgd_reference.allreduce import Request
from gqsgd_reference.hierarchy import nodes_string

from ..presets import SPECIAL
from ..segments import segments_record

_COUNTS = ((2, 2500), (3, 1024), (4, 5000), (5, 4097), (7, 20000), (8, 8193), (9, 1), (17, 20000),
           (3, 0), (2, 70001), (1, 8192), (3, 33000))
_NODES = {"4_2_1": (0, 0, 0, 0, 7, 7, 8), "3_5": (4, 4, 9, 9, 4, 9, 9, 9), "flat": (3, 3, 3)}


def allreduces(made, fields):
    """Few ranks printed, more by checksum; special values, dtypes, sums, nodes.

    made(name, request, ranks, count, printed, places) is a record, fields(turn) those of a request.
    """
    records = [made(f"printed_{ranks}", Request("direct", **fields(ranks - 1)), ranks, 150, True)
               for ranks in (1, 2)]
    records += [made(special, Request("direct", **fields(turn)), 3, 300, False, places)
                for turn, (special, places) in enumerate(SPECIAL.items())]
    records += [made(f"{ranks}_{count}", Request("direct", **fields(turn)), ranks, count)
                for turn, (ranks, count) in enumerate(_COUNTS)]
    records += [made(dtype, Request("direct", dtype=dtype, **fields(turn)), 4, 1500)
                for turn, dtype in enumerate(("float16", "bfloat16", "float64"))]
    for turn, (name, nodes) in enumerate(_NODES.items()):
        for count in (70, 9000, 40000):
            request = Request("hierarchical", nodes=nodes, **fields(turn + count))
            one = made(f"nodes_{name}_{count}", request, len(nodes), count)
            records.append({**one, "nodes": nodes_string(nodes)})
    return records


def segments(fields, spread):
    """Tensors that share granules and groups; slices of several groups, one of them empty."""
    tensors, slices = (1000, 1, 0, 5000, 33, 128, 7, 3000), (33000, 0, 5001)
    records = []
    made = lambda operation, name, lengths, turn, **more: records.append(segments_record(
        operation, name, lengths, spread=spread,
        **{key: value for key, value in fields(turn).items() if key != "call"}, **more))
    for turn in range(4):
        made("allreduce_many", f"tensors_{turn}", tensors, turn)
    made("allreduce_many", "few", (5, 9), 6, rank_count=2)
    made("allreduce_many", "half", (20000, 40, 20000), 5, dtype="float16", rank_count=2)
    made("allreduce_many", "nodes", tensors, 4, schedule="hierarchical", rank_count=5,
         nodes=(0, 1, 1, 0, 1))
    for operation in ("reduce_scatter", "allgather"):
        for turn in range(4):
            made(operation, f"slices_{turn}", slices, turn)
        made(operation, "short", (5, 0, 9, 129), 7, rank_count=4, nan_element=3, dtype="bfloat16")
        made(operation, "one_rank", (40000,), 2, rank_count=1)
    return records
