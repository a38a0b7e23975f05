"""Cases for whole allreduces: every schedule and format, inputs by formula or at the edges."""

from dataclasses import replace

import numpy as np
from gqsgd_reference.allreduce import Request, allreduce
from gqsgd_reference.floats import FLT_MAX, bits, narrow
from gqsgd_reference.random import Call

from .support.edges import (DENORMAL_MIN, FLT_MIN, GENERATED, INFINITY, NAN, both_signs, checksum,
                    generated)

_KEYS = """
schedule; levels; bits; combine: of the quantizer, so exact, average or sum; rank_count; op: sum
or mean; dtype; q, p: inf, 1 or 2; rounding: independent or nearest; seed, stream_id, step, index;
value_count: integers."""

SMALL = f"""
Whole allreduces on generated float32 inputs (FORMAT.md sections 1 to 10).{_KEYS}
salt: integer. norm, scale: float32 (not for levels none); words: the reduced codes of the whole
call, hex; result: patterns of dtype, the same on every rank.
{GENERATED}"""

LARGE = f"""
Whole allreduces too large to print: keys as in allreduce.txt, but for words and result:
words_checksum, result_checksum: sum over k of (2 k + 1) * pattern k, modulo 2^64, in decimal.
{GENERATED}"""

SPECIAL = f"""
Whole allreduces on inputs at the edges, and of every dtype and norm.{_KEYS}
rank_0, rank_1, ..: inputs as patterns of dtype. norm, scale: float32 (not for levels none);
words: the reduced codes of the whole call, hex; result: patterns of dtype."""

FORMATS = (("linear", 8, "exact"), ("linear", 8, "average"), ("linear", 4, "average"),
           ("exponential", 8, "sum"), ("exponential", 4, "average"), ("none", 32, "sum"))
SCHEDULES = ("ring", "tree", "butterfly", "direct")
_GROUPS = ((4, 127), (6, 128), (7, 129), (8, 1000), (9, 1000), (17, 1000))  # ranks, values
_CALL = Call(seed=0x243F6A8885A308D3, stream_id=1, step=20, index=3)


def _keys(case, request, rank_count, value_count):
    call = request.call
    return {"case": case, "schedule": request.schedule, "levels": request.levels,
            "bits": request.bits, "combine": request.combine, "rank_count": rank_count,
            "op": request.op, "dtype": request.dtype, "q": request.q, "p": request.p,
            "rounding": request.rounding, "seed": call.seed,
            "stream_id": call.stream_id, "step": call.step, "index": call.index,
            "value_count": value_count}


def _scales(request, result):
    return {} if request.levels == "none" else {"norm": result.norm, "scale": result.scale}


def _name(request, rank_count):
    return f"{request.schedule}_{request.levels}{request.bits}_{request.combine}_{rank_count}"


def _generated(request, rank_count, value_count, salt, printed):
    inputs = [bits(generated(salt, rank, value_count)) for rank in range(rank_count)]
    result = allreduce(request, inputs)
    answer = {"words": result.words, "result": result.values}
    if not printed:
        answer = {f"{key}_checksum": checksum(value) for key, value in answer.items()}
    keys = _keys(f"{_name(request, rank_count)}_{value_count}", request, rank_count, value_count)
    return {**keys, "salt": salt, **_scales(request, result), **answer}


def small():
    """All schedules and formats for 1, 2, 3 and 5 ranks; the last part is a tail of 5 values."""
    records = []
    for schedule in SCHEDULES:
        for place, chosen in enumerate(FORMATS):
            for rank_count in (1, 2, 3, 5):
                op = ("mean", "sum")[(rank_count + place) % 2]
                request = Request(schedule, *chosen, op=op, call=_CALL)
                value_count = 32 * (rank_count - 1) + 5 if rank_count < 5 else 37
                records.append(_generated(request, rank_count, value_count, 21, True))
    return records


def large():
    """More ranks, around powers of two, and counts around shards and words; (q, p) by turns."""
    records = []
    norms = [(q, p) for q in ("inf", "1", "2") for p in ("inf", "1", "2")]
    for schedule in SCHEDULES:
        for chosen in FORMATS:
            for rank_count, value_count in _GROUPS:
                request = Request(schedule, *chosen, call=_CALL)
                records.append(_generated(request, rank_count, value_count, 22, False))
        for place, chosen in enumerate(FORMATS[:5]):
            q, p = norms[(place * 2 + 1) % 9]
            request = Request(schedule, *chosen, op="sum", q=q, p=p, call=_CALL)
            records.append(_generated(request, 3, 65537, 23, False))
    # Chains beyond 64 combines: headroom stops at 64, exact levels at s = 1.
    for chosen in (FORMATS[0], FORMATS[3]):
        records.append(_generated(Request("ring", *chosen, call=_CALL), 70, 100, 24, False))
    return records


def _given(case, request, inputs):
    result = allreduce(request, inputs)
    ranks = {f"rank_{rank}": x for rank, x in enumerate(inputs)}
    keys = _keys(f"{_name(request, len(inputs))}_{case}", request, len(inputs), len(inputs[0]))
    return {**keys, **ranks, **_scales(request, result), "words": result.words,
            "result": result.values}


_SPECIAL_INPUTS = {
    "no_values": [[], [], []],
    "zeros": [[0.0, -0.0], [0, 0], [-0.0, -0.0]],
    "all_at_norm": [[3.5, -3.5, 3.5, -3.5]] * 3,
    "flt_max": [[FLT_MAX, -FLT_MAX, FLT_MAX, 1]] * 3,
    "cancel": [[1, -1, 0.5], [-1, 1, -0.5], [0, 0, 0]],
    "denormals": [[DENORMAL_MIN, -DENORMAL_MIN, 0], [FLT_MIN, 0, -FLT_MIN], [0, DENORMAL_MIN, 0]],
    "infinity": [[1, 2, 3], [1, -INFINITY, 3], [1, 2, 3]],
    "nan": [[1, 2, 3], [1, 2, 3], [NAN, 2, INFINITY]],
}


def _special_values(schedule, chosen):
    records = []
    for name, values in _SPECIAL_INPUTS.items():
        if chosen[0] == "none" and name == "nan":
            continue  # the sum's pattern in `words` would belong to the machine
        request = Request(schedule, *chosen, op="sum" if name == "flt_max" else "mean", call=_CALL)
        records.append(_given(name, request, [bits(np.array(x, dtype=np.float32)) for x in values]))
    return records


def _patterns(dtype, value_count, rank):
    """Ordinary inputs of a type."""
    values = np.append(both_signs([1, 0.1]), generated(25, rank, value_count))
    return narrow(values, dtype, np.zeros(len(values), dtype=np.uint64), nearest=True)


def _dtype(request):
    inputs = [_patterns(request.dtype, 8, rank) for rank in range(2)]
    return [_given(f"{request.dtype}_{name}", replace(request, rounding=rounding), inputs)
            for name, rounding in (("random", "independent"), ("nearest", "nearest"))]


def special():
    """Special values, dtypes, nearest and norms, each once in code form and once wide."""
    records = []
    for schedule in ("ring", "direct"):
        for chosen in FORMATS:
            records += _special_values(schedule, chosen)
            for dtype in ("float16", "bfloat16", "float64"):
                records += _dtype(Request(schedule, *chosen, dtype=dtype, call=_CALL))
        for q, p in [(q, p) for q in ("inf", "1", "2") for p in ("inf", "1", "2")]:
            request = Request(schedule, *FORMATS[1], q=q, p=p, call=_CALL)
            inputs = [_patterns("float32", 8, rank) for rank in range(3)]
            records.append(_given(f"norm_{q}_{p}", request, inputs))
    return records


FILES = {"allreduce.txt": (SMALL, small), "allreduce_large.txt": (LARGE, large),
         "allreduce_special.txt": (SPECIAL, special)}
