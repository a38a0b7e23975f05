"""Cases for levels bf16 and fp16: every stage, and whole calls on tensors, slices and nodes."""

import numpy as np
from gqsgd_reference.allreduce import Request
from gqsgd_reference.dequantize import dequantize
from gqsgd_reference.floats import FLT_MAX, float32_of
from gqsgd_reference.hierarchy import nodes_string
from gqsgd_reference.levels import Format
from gqsgd_reference.narrow_codes import DTYPES
from gqsgd_reference.quantize import quantize
from gqsgd_reference.random import QUANTIZE, REENCODE, Call
from gqsgd_reference.wide import add_wide
from gqsgd_reference.words import pack

from .presets import KEYS
from .presets import record as allreduce_record
from .segments import TEXT as SEGMENTS_TEXT
from .segments import segments_record
from .support.edges import (DENORMAL_MAX, DENORMAL_MIN, FLT_MIN, INFINITY, NAN, both_signs,
                            generated)
from .support.positions import CALL, ONES, POWER

_SITE = """
levels: bf16 or fp16; bits: 16; rounding: independent or nearest; seed, stream_id, step, index;
rank_count; rank; first_value, value_count: integers."""

_THRESHOLDS = """
enough_k and short_k: R(e) = 2^k, which is just enough to reach the upper neighbour, and 2^k - 1."""

QUANTIZE_TEXT = f"""
Values to floats of 16 bits (FORMAT.md section 5).{_SITE}
values: float32; words: hex.{_THRESHOLDS}"""

WIDE_TEXT = f"""
Floats of 16 bits of all ranks added and rounded once (FORMAT.md section 7).{_SITE}
rank: the owner. operand_0, operand_1, ..: words of each rank; words: hex.{_THRESHOLDS}"""

DEQUANTIZE_TEXT = """
Floats of 16 bits to float32 values (FORMAT.md section 8).
levels; bits; combine: wide; rank_count; op: sum or mean; value_count: integer.
words: hex; values: float32."""

ALLREDUCE_TEXT = f"""
Whole allreduces of levels bf16 and fp16 (FORMAT.md sections 1 to 13). norm, scale: of no meaning.
nodes, of the hierarchical schedule: an id for each rank, as in a communicator's options.{KEYS}"""

_PLAIN = Call(seed=0x0123456789ABCDEF, stream_id=2, step=3, index=4)
_CALL = Call(seed=0x243F6A8885A308D3, stream_id=1, step=20, index=3)
_TAILS = (0, 1, 2)
_KEPT_BITS = {"bf16": 16, "fp16": 19}  # of R(e) that can decide about a number that is not denormal

# Where float16 and bfloat16 have ends: denormals, the largest numbers, ties at both.
_EDGES = (
    0, DENORMAL_MIN, DENORMAL_MAX, FLT_MIN, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25, 1.5 * 2.0**-24,
    2.0**-14, 2.0**-14 - 2.0**-25, 1023.5 * 2.0**-24, 2.0**-14 * (1 + 2.0**-11), 2.0**-133,
    2.0**-134, 1.5 * 2.0**-133, 1, 1 + 2.0**-8, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 - 2.0**-24,
    2 - 2.0**-23, 0.1, 2049, 65503, 65504, 65505, 65519, 65520, 65535, 65536, 1e6,
    float32_of(0x7F7F0000)[()], float32_of(0x7F7F0001)[()], float32_of(0x7F7F8000)[()], FLT_MAX,
    INFINITY, NAN)


def _form(levels, rank_count=1, rounding="independent"):
    return Format(levels, 16, "wide", rank_count, 0, rounding)


def _site(form, call, rank, first_value, value_count):
    return {"levels": form.levels, "bits": form.bits, "rounding": form.rounding,
            "seed": call.seed, "stream_id": call.stream_id, "step": call.step, "index": call.index,
            "rank_count": form.rank_count, "rank": rank, "first_value": first_value,
            "value_count": value_count}


def _quantized(case, form, call, rank, first_value, values):
    values = np.asarray(values, dtype=np.float32)
    words = quantize(form, call, rank, values, np.float32(1), first_value)
    return {"case": f"{form.levels}_{case}",
            **_site(form, call, rank, first_value, len(values)), "values": values, "words": words}


def _threshold_values(levels, k):
    """A value of each sign, which R(e) = 2^k just takes to its upper neighbour."""
    below_one_step = 2**(32 - k) - 1  # in units of 2^(k - 32) steps
    step = 2.0**-7 if levels == "bf16" else 2.0**-10
    return both_signs([1 + below_one_step * step * 2.0**(k - 32)])


def _at(e, value, count=1):
    """The values of a record whose last one is element e, zeros before."""
    first = e - e % 32
    values = np.zeros(e - first + count, dtype=np.float32)
    values[e - first] = value
    return first, values


def quantizes():
    """Every end of both types, every field of the counter, and the thresholds of rounding."""
    records = []
    for levels in DTYPES:
        form = _form(levels, 4)
        edges = both_signs(_EDGES)
        records.append(_quantized("edges", form, _PLAIN, 1, 0, edges))
        records.append(_quantized("nearest", _form(levels, 4, "nearest"), _PLAIN, 1, 0, edges))
        x = generated(3, 1, 33)
        records += [_quantized(f"tail_{count}", form, _PLAIN, 0, 0, x[:count]) for count in _TAILS]
        records += [_quantized(f"first_value_{first}", form, _PLAIN, 3, first, x)
                    for first in (2**36 - 32, 2**44 - 64)]
        largest = Call(2**64 - 1, 2**32 - 1, 2**32 - 1, 2**16 - 1)
        most = _form(levels, 2**20)
        records.append(_quantized("largest_counter", most, largest, 2**20 - 1, 0, x[:9]))
        for k in (_KEPT_BITS[levels], 31):
            for name, e in ((f"enough_{k}", POWER[QUANTIZE][k]), (f"short_{k}", ONES[QUANTIZE][k])):
                for sign, value in zip(("", "negative_"), _threshold_values(levels, k)):
                    records.append(_quantized(f"{sign}{name}", form, CALL, 0, *_at(e, value)))
    return records


def _codes(levels, values):
    """Words of values that are codes, or of those next to them."""
    patterns = quantize(_form(levels, 1, "nearest"), _PLAIN, 0,
                        np.asarray(values, dtype=np.float32), np.float32(1))
    return patterns


def _summed(case, form, call, owner, first_value, operands, value_count):
    words, _ = add_wide(form, call, owner, operands, np.float32(1), value_count, first_value)
    ranks = {f"operand_{rank}": np.asarray(x, dtype=np.uint32) for rank, x in enumerate(operands)}
    return {"case": f"{form.levels}_{case}",
            **_site(form, call, owner, first_value, value_count), **ranks, "words": words}


_SUMS = {"order": [[1, 1, 2.0**-9, -0.0], [2.0**-24, -1, 2.0**-24, -0.0],
                   [2.0**-24, 1, -(2.0**-9), -0.0]],
         "largest": [[65504, -65504, 3.3895314e38, 1e38]] * 3,
         "smallest": [[2.0**-24, -(2.0**-24), 2.0**-133, 2.0**-14]] * 3,
         "not_finite": [[INFINITY, INFINITY, NAN, 1, -INFINITY], [1, -INFINITY, 1, NAN, -INFINITY],
                        [-65504, 0, NAN, 2, 7]]}


def sums():
    """Order, ends, numbers of ranks around powers of two, and thresholds."""
    records = []
    for levels in DTYPES:
        for name, values in _SUMS.items():
            operands = [_codes(levels, x) for x in values]
            for rounding in ("independent", "nearest")[:1 + (name == "order")]:
                form = _form(levels, len(values), rounding)
                records.append(_summed(f"{name}_{rounding}", form, _PLAIN, 1, 0, operands,
                                       len(values[0])))
        for count in (1, 2, 5):
            operands = [_codes(levels, generated(9, rank, 9)) for rank in range(count)]
            records.append(_summed(f"ranks_{count}", _form(levels, count), _PLAIN, count - 1, 64,
                                   operands, 9))
        for k in (24, 31):  # from 24 on the rest of a step is a code
            for name, e in ((f"enough_{k}", POWER[REENCODE][k]), (f"short_{k}", ONES[REENCODE][k])):
                records.append(_sum_threshold(levels, name, k, e))
    return records


def _sum_threshold(levels, name, k, e):
    """Two operands, 1 and the rest of a step; the first sum of two has the whole one."""
    rest = _threshold_values(levels, k)[0] - np.float32(1)
    first, one = _at(e, np.float32(1))
    _, other = _at(e, rest)
    operands = [_codes(levels, one), _codes(levels, other)]
    return _summed(name, _form(levels, 2), CALL, 0, first, operands, len(one))


def decodes():
    """Ends of both types; the sum and its mean over one rank, a power of two and others."""
    records = []
    patterns = [0, 1, 0x8001, 0x03FF, 0x0400, 0x007F, 0x0080, 0x3C00, 0xBC00, 0x3F80, 0x3F81,
                0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7C01, 0x7E00, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80,
                0x7F81, 0x7FFF, 0xFFFF, 0x3555, 0x5555, 0xAAAA]
    for levels in DTYPES:
        for count in (3, 2**20):
            for op in ("sum", "mean"):
                form = _form(levels, count)
                words = pack(np.array(patterns), 16)
                values = dequantize(form, words, np.float32(1), len(patterns), op)
                records.append({
                    "case": f"{levels}_{count}_{op}", "levels": levels, "bits": 16,
                    "combine": "wide", "rank_count": count, "op": op,
                    "value_count": len(patterns), "words": words, "values": values})
    return records


_SPECIAL = {
    "nan": [(1, 3, NAN)], "infinity": [(2, 130, -INFINITY)],
    "both_infinities": [(0, 6, INFINITY), (2, 6, -INFINITY)],
    "above_float16": [(1, 4, 65505), (2, 5, -70000)],
    "all_65504": [(rank, 7, 65504) for rank in range(3)],
    "flt_max": [(rank, 7, FLT_MAX) for rank in range(3)],
    "denormals": [(rank, element, (-1)**element * 2.0**(-20 - element % 12))
                  for rank in range(3) for element in range(128, 140)]}
_NODES = {"4_2_1": (0, 0, 0, 0, 7, 7, 8), "flat": (3, 3, 3)}


def allreduces():
    """Few ranks printed, more by checksum; special values, dtypes, sums, nodes."""
    records = []
    for levels in DTYPES:
        fields = {"levels": levels, "bits": 16, "combine": "exact", "call": _CALL}
        request = Request("direct", **fields)
        records += [allreduce_record(f"{levels}_{count}", request, count, 71, 51, True)
                    for count in (1, 3)]
        records += [allreduce_record(f"{levels}_{special}", request, 3, 140, 52, False, places)
                    for special, places in _SPECIAL.items()]
        records += [allreduce_record(f"{levels}_{count}_{value_count}", request, count, value_count,
                                     53, False)
                    for count, value_count in ((2, 2500), (5, 4097), (8, 8191), (17, 20000),
                                               (3, 0))]
        for dtype, rounding in (("float32", "nearest"), ("float16", "independent"),
                                ("bfloat16", "nearest"), ("float64", "independent")):
            other = Request("direct", op="sum", dtype=dtype, rounding=rounding, **fields)
            records.append(allreduce_record(f"{levels}_{dtype}_{rounding}", other, 4, 1500, 54,
                                            False))
        for name, nodes in _NODES.items():
            other = Request("hierarchical", nodes=nodes, **fields)
            one = allreduce_record(f"{levels}_nodes_{name}", other, len(nodes), 700, 55, False)
            records.append({**one, "nodes": nodes_string(nodes)})
    return records


def segments():
    """Tensors and slices, also on nodes."""
    records = []
    for levels in DTYPES:
        fields = {"levels": levels, "bits": 16, "combine": "exact"}
        tensors = (1000, 1, 0, 33, 7, 3000)
        records += [
            segments_record("allreduce_many", levels, tensors, **fields),
            segments_record("allreduce_many", f"{levels}_nodes", tensors, rank_count=5,
                            schedule="hierarchical", nodes=(0, 1, 1, 0, 1), **fields)]
        for operation in ("reduce_scatter", "allgather"):
            records += [segments_record(operation, f"{levels}_{op}", (1000, 0, 5001), op=op,
                                        **fields) for op in ("sum", "mean")]
            records.append(segments_record(operation, f"{levels}_nearest", (5, 0, 9, 1),
                                           rank_count=4, rounding="nearest", dtype="bfloat16",
                                           nan_element=3, **fields))
    return records


FILES = {"quantize_narrow.txt": (QUANTIZE_TEXT, quantizes), "wide_narrow.txt": (WIDE_TEXT, sums),
         "dequantize_narrow.txt": (DEQUANTIZE_TEXT, decodes),
         "allreduce_narrow.txt": (ALLREDUCE_TEXT, allreduces),
         "segments_narrow.txt": (SEGMENTS_TEXT, segments)}
