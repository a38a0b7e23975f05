"""Cases for norms per block: the 16-bit codes, and the norm stage on blocks and rotated values."""

import numpy as np
from gqsgd_reference.block_norm import block_codes, merge_codes, norm_codes, norms_of
from gqsgd_reference.floats import FLT_MAX
from gqsgd_reference.random import Call
from gqsgd_reference.rotation import rotate

from .support.edges import (DENORMAL_MAX, DENORMAL_MIN, FLT_MIN, GENERATED, INFINITY, NAN, ONE,
                    both_signs, generated)

CODES = """
Norm codes (FORMAT.md section 4).
Case codes: patterns: of float32 without sign, hex; codes: 4 hex digits each.
Case norms: codes; norms: the float32 that each stands for.
Case merge: a, b: codes of two ranks; codes: the global ones."""

BLOCKS = f"""
Norm codes of blocks (FORMAT.md section 4), of rotated values (section 12) with rotate hadamard.
block; rotate: none or hadamard; seed, stream_id, step, index, first_value, value_count: integers.
values: float32, or salt: generated values of rank 0; codes: 4 hex digits of each block, with
rotation to the next multiple of 128.
{GENERATED}"""

_CALL = Call(seed=0x0F1E2D3C4B5A6978, stream_id=7, step=8, index=9)
_SALT = 31


def codes():
    """Each end of each rule, one pattern to either side."""
    edges = [0, 1, 0xFFFF, 0x10000, 0x10001, 0x7FFFFF, 0x800000, 0x800001, 0x3F800000, 0x3F800001,
             0x3F80FFFF, 0x3F810000, 0x7F7EFFFF, 0x7F7F0000, 0x7F7F0001, 0x7F7FFFFF, 0x7F800000,
             0x7F800001, 0x7FC00000, 0x7FFFFFFF]
    patterns = np.array(edges, dtype=np.uint32)
    some = np.uint16([0, 1, 0x7F, 0x80, 0x3F80, 0x3F81, 0x7F7F, 0x7F80, 0x7FFF])
    a, b = np.repeat(some, len(some)), np.tile(some, len(some))
    return [{"case": "codes", "patterns": patterns, "codes": norm_codes(patterns)},
            {"case": "norms", "codes": some, "norms": norms_of(some)},
            {"case": "merge", "a": a, "b": b, "codes": merge_codes([a, b])}]


def _record(case, block, rotated, first_value, values, given=None):
    """given: where the values come from, if they are not printed."""
    values = np.asarray(values, dtype=np.float32)
    stage = rotate(_CALL, values, first_value) if rotated else values
    return {"case": case, "block": block, "rotate": "hadamard" if rotated else "none",
            "seed": _CALL.seed, "stream_id": _CALL.stream_id, "step": _CALL.step,
            "index": _CALL.index, "first_value": first_value, "value_count": len(values),
            **(given or {"values": values}), "codes": block_codes(stage, block)}


def _generated(case, block, rotated, first_value, value_count):
    return _record(case, block, rotated, first_value, generated(_SALT, 0, value_count),
                   {"salt": _SALT})


def _placed(value, place, value_count):
    values = generated(_SALT, 0, value_count)
    values[place] = value
    return values


def blocks():
    """Tails of blocks, blocks longer than the range, poison in one block, rotated or not."""
    records = [_generated(f"count_{count}", 32, False, 0, count)
               for count in (0, 1, 31, 32, 33, 63, 64, 65, 100)]
    records += [_generated(f"block_{block}", block, False, 0, 130)
                for block in (64, 128, 65536)]
    edge = both_signs([0, DENORMAL_MIN, DENORMAL_MAX, FLT_MIN, ONE, FLT_MAX])
    records.append(_record("edges", 32, False, 0, np.repeat(edge[:-2], 32)))
    records.append(_record("flt_max", 32, False, 0, edge))
    for name, value in {"nan": NAN, "negative_nan": -NAN, "infinity": -INFINITY}.items():
        records.append(_record(name, 32, False, 0, _placed(value, 40, 96)))
        records.append(_record(f"rotated_{name}", 128, True, 0, _placed(value, 40, 70)))
    records += [_generated(f"rotated_{block}_{first}_{count}", block, True, first, count)
                for block, first, count in ((128, 0, 5), (32, 1024, 130), (1024, 2**36, 130),
                                            (512, 2**44 - 1024, 1), (2048, 0, 1030), (128, 0, 0))]
    records.append(_record("rotated_flt_max", 256, True, 0, np.full(64, FLT_MAX)))
    return records


FILES = {"norm_codes.txt": (CODES, codes), "norm_blocks.txt": (BLOCKS, blocks)}
