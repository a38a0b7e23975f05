"""Cases for the rotation: signs, forth and back."""

import numpy as np
from gqsgd_reference.floats import FLT_MAX
from gqsgd_reference.random import Call
from gqsgd_reference.rotation import rotate, rotate_back, sign_flips

from .support.edges import DENORMAL_MIN, GENERATED, ONE, checksum, generated

DESCRIPTION = f"""
The rotation of up to 1024 values at a time (FORMAT.md section 12).
seed, stream_id, step, index, first_value, value_count: integers.
Cases signs_..: sign_words: bit e mod 32 of word e div 32 is the sign of element first_value + e.
Other cases: elements, values: those that are not zero, as decimal places in the range and float32,
or salt: generated values of rank 0; rotated_checksum: of the patterns of all 128 ceil(value_count
/ 128) values; rotated: the first 32 of them; back: what the first 32 become on the way back;
back_checksum: of the patterns of the first value_count.
A checksum is the sum over k of (2 k + 1) * pattern k, modulo 2^64, in decimal.
{GENERATED}"""

_CALL = Call(seed=0x1020304050607080, stream_id=3, step=4, index=5)


def _place(case, first_value, value_count):
    return {"case": case, "seed": _CALL.seed, "stream_id": _CALL.stream_id, "step": _CALL.step,
            "index": _CALL.index, "first_value": first_value, "value_count": value_count}


def _signs(first_value):
    flips = sign_flips(_CALL, first_value, 1024) >> np.uint32(31)
    shifts = np.arange(32, dtype=np.uint32)
    words = np.bitwise_or.reduce(flips.reshape(-1, 32) << shifts, axis=1)
    return {**_place(f"signs_{first_value}", first_value, 1024), "sign_words": words}


def _record(case, first_value, values, given):
    rotated = rotate(_CALL, values, first_value)
    back = rotate_back(_CALL, rotated, len(values), first_value)
    patterns = [x.view(np.uint32) for x in (rotated, back)]
    return {**_place(case, first_value, len(values)), **given, "rotated": rotated[:32],
            "rotated_checksum": checksum(patterns[0]), "back": back[:32],
            "back_checksum": checksum(patterns[1])}


def _sparse(case, first_value, value_count, elements, values):
    x = np.zeros(value_count, dtype=np.float32)
    x[elements] = values
    return _record(case, first_value, x, {"elements": elements, "values": np.float32(values)})


def rotations():
    """Signs of far elements; one value alone, cancellation, denormals, the largest; tails."""
    records = [_signs(first) for first in (0, 1024, 2**36 - 1024, 2**44 - 1024)]
    records += [_sparse(f"one_{place}", 0, 1024, [place], [ONE]) for place in (0, 1, 512, 1023)]
    records += [
        _sparse("zeros", 0, 7, [], []), _sparse("flt_max", 0, 4, [0, 3], [FLT_MAX, -FLT_MAX]),
        _sparse("denormals", 0, 40, [1, 2, 39], [DENORMAL_MIN, -2.0**-126, 2.0**-140]),
        _sparse("rounds", 1024, 1000, [0, 1, 2, 999], [1, 2.0**-24, 2.0**-24, 3])]
    for first, count in ((0, 1024), (1024, 5), (2**36, 1025), (2**44 - 1024, 1000),
                         (0, 896), (3072, 897), (0, 2048 + 640)):
        values = generated(33, 0, count)
        records.append(_record(f"generated_{first}_{count}", first, values, {"salt": 33}))
    return records


FILES = {"rotation.txt": (DESCRIPTION, rotations)}
