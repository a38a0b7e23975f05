"""Cases for tensors and slices of any length in every kind of format."""

import numpy as np
from gqsgd_reference.allreduce import Request
from gqsgd_reference.floats import NAN_PATTERN, narrow
from gqsgd_reference.hierarchy import nodes_string
from gqsgd_reference.random import Call
from gqsgd_reference.segments import allgather, allreduce_many, hash_of, reduce_scatter

from .support.edges import GENERATED, checksum, generated, spread_blocks

TEXT = f"""
Collectives on several buffers (FORMAT.md section 15).
operation: allreduce_many, reduce_scatter or allgather; quantizer: its text; schedule, of
allreduce_many; nodes, of the hierarchical one: an id for each rank.
rank_count; op; dtype; stream_id, step, index.
lengths: of tensors, or of the slices of ranks; hash: of these, in decimal.
salt: of the generated inputs, made float32 and, for other types, rounded to nearest even: a rank's
tensors or slices one after the other, of which an allgather reads the own one. nan_element, where
there is one: NaN on rank 0.
result: patterns of dtype: all tensors, or all slices, one after the other; or result_checksum: sum
over k of (2 k + 1) * pattern k, modulo 2^64, in decimal.
{GENERATED}"""

_CALL = Call(seed=0x243F6A8885A308D3, stream_id=3, step=11, index=4)
_SALT = 77
_GL8 = {"levels": "linear", "bits": 8, "combine": "exact"}
_GL4 = {"levels": "linear", "bits": 4, "combine": "average"}
_GE8 = {"levels": "exponential", "bits": 8, "combine": "sum"}
_GE4 = {"levels": "exponential", "bits": 4, "combine": "average"}
_NONE = {"levels": "none", "bits": 32, "combine": "sum"}


def _text_of(request):
    """The text of its quantizer."""
    fields = {"levels": request.levels}
    if request.levels == "rice":
        fields |= {"mean_bits": f"{request.mean_bits:g}", "rounding": request.rounding}
    elif request.mean_bits:
        fields |= {"width": "adaptive", "mean_bits": f"{request.mean_bits:g}",
                   "block": request.block, "rounding": request.rounding,
                   "rounding_down": request.rounding_down,
                   "rescale": "true" if request.rescale else "false"}
    elif request.levels != "none":
        fields |= {"bits": request.bits, "combine": request.combine,
                   "norm": f"{request.q}:{request.p}", "block": request.block,
                   "rotate": request.rotate, "rounding": request.rounding,
                   "mantissa_bits": request.mantissa_bits,
                   "bits_down": request.bits_down or request.bits,
                   "rounding_down": request.rounding_down,
                   "rescale": "true" if request.rescale else "false"}
    return ",".join(f"{name}={value}" for name, value in fields.items()) + f",seed={_CALL.seed}"


def _inputs(request, rank_count, value_count, nan_element, spread):
    inputs = [narrow(spread_blocks(generated(_SALT, rank, value_count), spread), request.dtype,
                     None, nearest=True) for rank in range(rank_count)]
    if nan_element is not None:
        inputs[0][nan_element] = NAN_PATTERN[request.dtype]
    return inputs


def _results(operation, request, inputs, lengths):
    edges = np.cumsum([0, *lengths])
    if operation == "reduce_scatter":
        return reduce_scatter(request, inputs, lengths)
    if operation == "allgather":
        return allgather(request, [inputs[rank][edges[rank]:edges[rank + 1]]
                                   for rank in range(len(lengths))])
    return allreduce_many(request, [np.split(x, edges[1:-1]) for x in inputs])


def segments_record(operation, name, lengths, rank_count=3, nan_element=None, schedule="direct",
                    spread=0, **fields):
    """One record; fields: of the request."""
    request = Request(schedule, call=_CALL, **fields)
    inputs = _inputs(request, rank_count, sum(lengths), nan_element, spread)
    values = np.concatenate(_results(operation, request, inputs, lengths))
    answer = {"result": values} if len(values) <= 40 else {"result_checksum": checksum(values)}
    special = {} if nan_element is None else {"nan_element": nan_element}
    if spread:
        special["spread"] = spread
    if request.nodes:
        special["nodes"] = nodes_string(request.nodes)
    return {"case": f"{operation}_{name}", "operation": operation, "quantizer": _text_of(request),
            "schedule": schedule, "rank_count": rank_count, "op": request.op,
            "dtype": request.dtype, "stream_id": _CALL.stream_id, "step": _CALL.step,
            "index": _CALL.index, "lengths": lengths, "hash": hash_of(lengths), "salt": _SALT,
            **special, **answer}


_TENSORS = (1000, 1, 0, 5000, 33, 128, 7, 3000)
_SLICES = (1000, 0, 5001)


def _many():
    record = lambda name, **fields: segments_record("allreduce_many", name, _TENSORS, **fields)
    schedules = [record(f"{levels}_{schedule}", schedule=schedule, **form)
                 for schedule in ("ring", "tree", "butterfly", "direct")
                 for levels, form in (("gl8", _GL8), ("gl4", _GL4), ("ge8", _GE8), ("ge4", _GE4))]
    in_nodes = {"schedule": "hierarchical", "nodes": (0, 1, 1, 0, 1), "rank_count": 5}
    hierarchies = [
        record("gl8_nodes", **_GL8, **in_nodes), record("ge4_nodes", **_GE4, **in_nodes),
        record("blocks_nodes", **_GL8, block=128, rescale=True, rounding="correlated", **in_nodes),
        record("down_nodes", **_GL4, block=64, bits_down=8, rounding_down="subtractive",
               **in_nodes),
        record("rotated_nodes", **_GL8, rotate="hadamard", op="sum", **in_nodes),
        record("none_nodes", **_NONE, **in_nodes)]
    return schedules + hierarchies + [
        record("few", **_GL8 | {"op": "sum"}, rank_count=2, nan_element=3),
        record("norm_2_2", **_GL8, q="2", p="2"), record("norm_1_inf", **_GE4, q="1", p="inf"),
        record("blocks", **_GL8, block=128, rescale=True, rounding="correlated"),
        record("blocks_ring", **_GL8, block=64, schedule="ring", rank_count=5),
        record("down", **_GL4, block=128, bits_down=8, rounding_down="subtractive"),
        record("rotated", **_GL8, block=128, rotate="hadamard", rescale=True),
        record("rotated_one_norm", **_GL8, rotate="hadamard", q="2", p="1", schedule="tree"),
        record("mantissa", **_GE8, block=32, mantissa_bits=2, nan_element=1001),
        record("half", **_GE8, dtype="float16"), record("none", **_NONE, dtype="bfloat16")]


def _sliced(operation):
    record = lambda name, lengths=_SLICES, **fields: segments_record(operation, name, lengths,
                                                                     **fields)
    formats = (("gl8", _GL8), ("gl4", _GL4), ("ge8", _GE8), ("ge4", _GE4), ("none", _NONE))
    records = [record(f"{name}_{op}", op=op, **form)
               for name, form in formats for op in ("sum", "mean")]
    return records + [
        record("short", (5, 0, 9, 1), rank_count=4, **_GL8, block=32),
        record("one_rank", (700,), rank_count=1, **_GL8, block=128),
        record("norm_2_2", **_GL8, q="2", p="2"), record("norm_1_inf", **_GE4, q="1", p="inf"),
        record("correlated", **_GL4, rounding="correlated", block=128),
        record("nearest", **_GE8, rounding="nearest", dtype="float16"),
        record("rotated", **_GL8, block=128, rotate="hadamard", op="sum"),
        record("rotated_one_norm", **_GL4, rotate="hadamard", nan_element=3),
        record("without_effect", **_GL4, block=128, bits_down=8, rescale=True,
               rounding_down="subtractive"),
        record("mantissa", **_GE8, block=32, mantissa_bits=2),
        record("nan", **_GL8, block=64, nan_element=65), record("half", **_GL8, dtype="float16"),
        record("bfloat", **_GE8, block=64, dtype="bfloat16"),
        record("double", **_GL8, dtype="float64")]


def segments():
    """Tensors, then slices both ways."""
    return _many() + _sliced("reduce_scatter") + _sliced("allgather")


FILES = {"segments.txt": (TEXT, segments)}
