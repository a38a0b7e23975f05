"""Cases for whole allreduces of the presets, and of the paper's formats with norms per block."""

import numpy as np
from gqsgd_reference.allreduce import Request, allreduce
from gqsgd_reference.floats import FLT_MAX, narrow
from gqsgd_reference.random import Call

from .support.edges import (DENORMAL_MIN, GENERATED, INFINITY, NAN, checksum, generated,
                            spread_blocks)

KEYS = f"""
schedule; levels; bits; bits_down; combine: of the quantizer, so exact, average or sum; rounding;
rounding_down; block; rotate; rescale: 0 or 1; mantissa_bits; rank_count; op: sum or mean; dtype; q,
p: inf; seed, stream_id, step, index; value_count; salt: of the generated inputs, made float32 and,
for other types, rounded to nearest even: integers.
special_ranks, special_elements: integers, special_values: float32, where any: inputs in place of
the generated ones.
norms, scales: codes of all blocks, 4 hex digits each; words: the reduced codes of the whole call,
hex; result: patterns of dtype, the same on every rank; or words_checksum, result_checksum, ..: sum
over k of (2 k + 1) * pattern k, modulo 2^64, in decimal.
{GENERATED}"""

PRESETS_TEXT = f"""
Whole allreduces of the presets (FORMAT.md sections 1 to 13); preset: its name.{KEYS}"""

BLOCKS_TEXT = f"""
Whole allreduces of the paper's formats with norms per block and correlated rounding, with and
without rotation, on every schedule (FORMAT.md sections 1 to 13).{KEYS}"""

_BLOCKS_8 = {"levels": "linear", "bits": 8, "combine": "exact", "block": 128,
             "rounding": "correlated", "rescale": True}
_ROTATED_8 = {**_BLOCKS_8, "rotate": "hadamard", "rounding_down": "subtractive"}
PRESETS = {
    "blocks-8": _BLOCKS_8,
    "rotated-8": _ROTATED_8,
    "rotated-4-8": {**_ROTATED_8, "bits": 4, "bits_down": 8, "combine": "average"},
    "rotated-4": {**_ROTATED_8, "bits": 4, "combine": "average"},
    "relative-8": {"levels": "exponential", "bits": 8, "combine": "sum", "mantissa_bits": 2,
                   "rounding": "correlated"},
}
PAPER_FORMATS = (("linear", 8, "exact"), ("linear", 8, "average"), ("linear", 4, "average"),
                 ("exponential", 8, "sum"), ("exponential", 4, "average"))
SCHEDULES = ("ring", "tree", "butterfly", "direct")
_CALL = Call(seed=0x243F6A8885A308D3, stream_id=1, step=20, index=3)
SPECIAL = {  # (rank, element, value): in the first block, or at the same place on all ranks
    "nan": [(1, 3, NAN)], "infinity": [(2, 130, -INFINITY)],
    "cancel": [(0, 5, 2), (1, 5, -2), (2, 5, 0)],
    "flt_max": [(rank, 7, FLT_MAX) for rank in range(3)],
    "denormals": [(rank, element, (-1)**element * DENORMAL_MIN * (rank + 1))
                  for rank in range(3) for element in range(128, 140)],
}


def _inputs(request, rank_count, value_count, salt, special, spread):
    ranks = []
    for rank in range(rank_count):
        values = spread_blocks(generated(salt, rank, value_count), spread)
        for where, element, value in special:
            if where == rank:
                values[element] = value
        ranks.append(narrow(values, request.dtype, None, nearest=True))
    return ranks


def _request_keys(case, request, rank_count, value_count):
    call = request.call
    widths = {"bits": request.bits, "bits_down": request.bits_down or request.bits}
    if request.mean_bits:
        widths = {"mean_bits": f"{request.mean_bits:g}"}
        if request.levels != "rice":
            widths = {"width": "adaptive", **widths}
    return {"case": case, "schedule": request.schedule, "levels": request.levels, **widths,
            "combine": request.combine, "rounding": request.rounding,
            "rounding_down": request.rounding_down, "block": request.block,
            "rotate": request.rotate, "rescale": int(request.rescale),
            "mantissa_bits": request.mantissa_bits, "rank_count": rank_count, "op": request.op,
            "dtype": request.dtype, "q": request.q, "p": request.p, "seed": call.seed,
            "stream_id": call.stream_id, "step": call.step, "index": call.index,
            "value_count": value_count}


def record(case, request, rank_count, value_count, salt, printed, special=(), spread=0):
    inputs = _inputs(request, rank_count, value_count, salt, special, spread)
    result = allreduce(request, inputs)
    plural = "s" if request.block > 0 else ""
    numbers = {f"norm{plural}": result.norm, f"scale{plural}": result.scale}
    answer = {"words": result.words, "result": result.values}
    if not printed:
        if request.block > 0:
            answer, numbers = {**numbers, **answer}, {}
        answer = {f"{key}_checksum": checksum(value) for key, value in answer.items()}
    given = {"spread": spread} if spread else {}
    if special:
        ranks, elements, values = zip(*special)
        given |= {"special_ranks": ranks, "special_elements": elements,
                 "special_values": np.float32(values)}
    keys = _request_keys(case, request, rank_count, value_count)
    return {**keys, "salt": salt, **given, **numbers, **answer}


def presets():
    """Few ranks printed, more by checksum; special values, dtypes and sums."""
    records = []
    for name, fields in PRESETS.items():
        request = Request("direct", call=_CALL, **fields)
        made = [record(f"{name}_{count}", request, count, 140, 41, True) for count in (1, 3)]
        for special, places in SPECIAL.items():
            printed = special in ("nan", "flt_max")
            made.append(record(f"{name}_{special}", request, 3, 140, 42, printed, places))
        for count, value_count in ((2, 2500), (3, 1024), (4, 5000), (5, 4097), (7, 20000),
                                   (8, 8191), (9, 1), (17, 20000), (3, 0)):
            case = f"{name}_{count}_{value_count}"
            made.append(record(case, request, count, value_count, 43, False))
        for dtype in ("float16", "bfloat16", "float64"):
            other = Request("direct", op="sum", dtype=dtype, call=_CALL, **fields)
            made.append(record(f"{name}_{dtype}", other, 4, 1500, 44, False))
        records += [{"case": one["case"], "preset": name, **one} for one in made]
    return records


def paper_blocks():
    """Every schedule in code form and wide; parts of which the last are short or empty."""
    records = []
    for schedule in SCHEDULES:
        for levels, bits_, combine in PAPER_FORMATS:
            name = f"{schedule}_{levels}{bits_}_{combine}"
            fields = {"levels": levels, "bits": bits_, "combine": combine, "call": _CALL,
                      "rounding": "correlated", "block": 64}
            request = Request(schedule, **fields)
            records.append(record(f"{name}_3", request, 3, 200, 45, True))
            records += [record(f"{name}_{count}", request, count, 1000, 46, False)
                        for count in (1, 2, 4, 5, 8, 17)]
            records.append(record(f"{name}_nan", request, 3, 200, 46, False, SPECIAL["nan"]))
            rotated = Request(schedule, rotate="hadamard", op="sum", **fields)
            records += [record(f"{name}_rotated_{count}", rotated, count, 2100, 47, False)
                        for count in (2, 5)]
            one_norm = Request(schedule, **{**fields, "block": 0})
            records.append(record(f"{name}_one_norm", one_norm, 6, 300, 48, False))
    return records


FILES = {"allreduce_presets.txt": (PRESETS_TEXT, presets),
         "allreduce_blocks.txt": (BLOCKS_TEXT, paper_blocks)}
