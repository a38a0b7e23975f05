"""Cases for lists of codes: entries with and without fillers; whole allreduces of the schedule."""

import numpy as np
from gqsgd_reference.allreduce import Request, allreduce
from gqsgd_reference.floats import FLT_MAX, narrow
from gqsgd_reference.levels import Format
from gqsgd_reference.random import Call
from gqsgd_reference.sparse import GAP_COUNT, select, zero_lane
from gqsgd_reference.words import pack

from .support.edges import DENORMAL_MIN, GENERATED, NAN, checksum, generated

LISTS_TEXT = """
Lists of codes that are not zero (FORMAT.md section 14).
levels; bits; value_count; elements: of the codes that are not zero; lanes: theirs, integers.
entries: hex."""

CALLS_TEXT = f"""
Whole allreduces of the sparse schedule (FORMAT.md sections 1 to 9 and 14).
levels; bits; combine: of the quantizer, so exact, average or sum; rounding; rank_count; op: sum or
mean; dtype; q, p; seed, stream_id, step, index; value_count; salt: of the generated inputs, made
float32 and, for other types, rounded to nearest even; kept_modulus: inputs are zero where it does
not divide e + rank.
special_ranks, special_elements: integers, special_values: float32, where any: inputs in place of
those.
norm: hex; entry_counts: of each rank's list; uses_lists: 0 or 1.
result: patterns of dtype, the same on every rank; or result_checksum: sum over k of
(2 k + 1) * pattern k, modulo 2^64, in decimal.
{GENERATED}"""

_FORMATS = (("linear", 8, "exact"), ("linear", 4, "average"),
            ("exponential", 8, "sum"), ("exponential", 4, "average"))
_CALL = Call(seed=0x13198A2E03707344, stream_id=2, step=5, index=1)
_PLACES = {  # length, elements
    "empty": (0, []), "zeros": (100, []), "first": (100, [0]), "last": (100, [99]),
    "neighbours": (70, [0, 1, 2, 31, 32, 33, 63, 64]), "all": (9, list(range(9))),
    "longest_gap": (GAP_COUNT + 40, [GAP_COUNT - 1, GAP_COUNT + 7]),
    "one_filler": (GAP_COUNT + 40, [GAP_COUNT, GAP_COUNT + 1]),
    "two_fillers": (2 * GAP_COUNT + 33, [5, 2 * GAP_COUNT + 6, 2 * GAP_COUNT + 9]),
    "no_filler_at_the_end": (GAP_COUNT + 40, [3])}


def _list_record(name, levels, bits, value_count, elements):
    form = Format(levels, bits, "wide")
    zero = zero_lane(form)
    others = [lane for lane in range(2**bits - (levels == "linear"))
              if lane not in (zero, 2**(bits - 1)) or levels == "linear" and lane != zero]
    chosen = [others[7 * k % len(others)] for k in range(len(elements))]
    lanes = np.full(value_count, zero, dtype=np.uint8)
    lanes[elements] = chosen
    return {"case": f"{name}_{levels}{bits}", "levels": levels, "bits": bits,
            "value_count": value_count, "elements": elements, "lanes": chosen,
            "entries": select(form, pack(lanes, bits), value_count)}


def lists():
    """Gaps of every kind; what is longer than a gap in one format alone."""
    records = []
    for levels, bits, _ in _FORMATS:
        for name, (value_count, elements) in _PLACES.items():
            if value_count < GAP_COUNT or (levels, bits) == ("linear", 4):
                records.append(_list_record(name, levels, bits, value_count, elements))
    return records


def _inputs(request, rank_count, value_count, salt, kept_modulus, special):
    ranks = []
    for rank in range(rank_count):
        values = generated(salt, rank, value_count)
        values[(np.arange(value_count) + rank) % kept_modulus != 0] = 0
        for where, element, value in special:
            if where == rank:
                values[element] = value
        ranks.append(narrow(values, request.dtype, None, nearest=True))
    return ranks


def _call_record(case, request, shape, kept_modulus, special=(), salt=51):
    rank_count, value_count = shape
    result = allreduce(request, _inputs(request, rank_count, value_count, salt, kept_modulus,
                                        special))
    given = {}
    if special:
        where, elements, values = zip(*special)
        given = {"special_ranks": where, "special_elements": elements,
                 "special_values": np.float32(values)}
    answer = {"result": result.values} if value_count <= 70 else {
        "result_checksum": checksum(result.values)}
    call = request.call
    return {"case": case, "schedule": request.schedule, "levels": request.levels,
            "bits": request.bits, "combine": request.combine, "rounding": request.rounding,
            "rank_count": rank_count, "op": request.op, "dtype": request.dtype, "q": request.q,
            "p": request.p, "seed": call.seed, "stream_id": call.stream_id, "step": call.step,
            "index": call.index, "value_count": value_count, "salt": salt,
            "kept_modulus": kept_modulus, **given, "norm": result.norm,
            "entry_counts": result.entry_counts, "uses_lists": int(len(result.words) == 0),
            **answer}


def _calls_of(levels, bits, combine):
    """One format: groups, lengths, both ops, orders of norms, types, edges, the dense way."""
    name = f"{levels}{bits}"

    def record(case, shape, kept_modulus, special=(), **fields):
        request = Request("sparse", levels, bits, combine, call=_CALL, **fields)
        return _call_record(f"{name}_{case}", request, shape, kept_modulus, special)

    records = [record(f"{ranks}", (ranks, 70), 13 * ranks) for ranks in (1, 3)]
    records += [record(f"{ranks}_{count}", (ranks, count), 16 * ranks + 3)
                for ranks, count in ((2, 1000), (4, 4097), (5, 3001), (9, 9000), (17, 9000))]
    records += [record("sum", (4, 3000), 67, op="sum"),
                record("norm_2_2", (3, 30000), 7, q="2", p="2"),
                record("norm_1_inf", (3, 5000), 7, q="1", p="inf"),
                record("correlated", (6, 2000), 101, rounding="correlated"),
                record("nearest", (3, 2000), 41, rounding="nearest"),
                record("dense", (3, 2000), 1), record("dense_sum", (4, 700), 2, op="sum"),
                record("no_values", (3, 0), 1), record("one_value", (2, 1), 1),
                record("zero_norm", (3, 200), 1000, [(0, 0, 0)]),
                record("nan", (3, 200), 67, [(1, 70, NAN)]),
                record("flt_max", (3, 200), 67, [(rank, 3, FLT_MAX) for rank in range(3)]),
                record("flt_max_sum", (3, 200), 67, [(rank, 3, -FLT_MAX) for rank in range(3)],
                       op="sum"),
                record("cancel", (2, 200), 1000, [(0, 0, 1), (1, 0, -1), (1, 999 % 200, 0)]),
                record("denormals", (3, 200), 1000,
                       [(rank, 7 * rank, DENORMAL_MIN * (rank + 1)) for rank in range(3)])]
    return records + [record(dtype, (3, 3000), 61, dtype=dtype)
                      for dtype in ("float16", "bfloat16", "float64")]


def calls():
    """Every format."""
    return [record for form in _FORMATS for record in _calls_of(*form)]


FILES = {"sparse.txt": (LISTS_TEXT, lists), "allreduce_sparse.txt": (CALLS_TEXT, calls)}
