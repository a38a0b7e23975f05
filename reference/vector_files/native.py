"""Cases for the native schedule: exact sums of whole calls, for as many ranks as share levels."""

from gqsgd_reference.allreduce import Request, allreduce
from gqsgd_reference.floats import bits
from gqsgd_reference.random import Call

from .support.edges import GENERATED, generated

DESCRIPTION = f"""
Whole allreduces of the native schedule (FORMAT.md sections 1 to 10), on generated float32 inputs.
schedule; levels; bits; combine; rank_count; op: sum or mean; dtype; q, p; rounding; block; rotate;
seed, stream_id, step, index; value_count; salt: integers. norm: float32, with a block the codes of
norms; words: the codes' sums, hex; result: patterns of dtype.
{GENERATED}"""

_CALL = Call(seed=0x243F6A8885A308D3, stream_id=2, step=7, index=9)
# Ranks and values: words in pairs and odd numbers of them, empty calls, all levels there are.
_GROUPS = ((1, 5), (2, 4), (3, 0), (3, 33), (7, 65), (127, 9))
_FIELDS = ({}, {"rounding": "correlated"}, {"rounding": "nearest", "q": "2", "p": "2"},
           {"block": 32}, {"rotate": "hadamard"}, {"block": 128, "rotate": "hadamard"})


def _record(request, rank_count, value_count):
    inputs = [bits(generated(31, rank, value_count)) for rank in range(rank_count)]
    result = allreduce(request, inputs)
    call = request.call
    fields = "_".join(str(part) for part in (request.rounding, request.block, request.rotate))
    return {"case": f"native{request.bits}_{fields}_{rank_count}_{value_count}_{request.op}",
            "schedule": "native", "levels": "linear", "bits": request.bits, "combine": "exact",
            "rank_count": rank_count, "op": request.op, "dtype": "float32", "q": request.q,
            "p": request.p, "rounding": request.rounding, "block": request.block,
            "rotate": request.rotate, "seed": call.seed, "stream_id": call.stream_id,
            "step": call.step, "index": call.index, "value_count": value_count, "salt": 31,
            "norm": result.norm, "words": result.words, "result": result.values}


def calls():
    """8 bits for up to 127 ranks, 4 bits for up to 7."""
    records = []
    for place, (rank_count, value_count) in enumerate(_GROUPS):
        for turn, fields in enumerate(_FIELDS):
            op = ("sum", "mean")[(place + turn) % 2]
            for bits_ in (8, 4) if rank_count <= 7 else (8,):
                request = Request("native", "linear", bits_, "exact", op=op, call=_CALL, **fields)
                records.append(_record(request, rank_count, value_count))
    return records


FILES = {"allreduce_native.txt": (DESCRIPTION, calls)}
