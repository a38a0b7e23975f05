"""Cases for Rice codes: the stages of a group, and whole calls."""

import numpy as np
from gqsgd_reference import rice
from gqsgd_reference.floats import FLT_MAX
from gqsgd_reference.levels import Format
from gqsgd_reference.quantize import quantize_bits, rounding_bits
from gqsgd_reference.random import REENCODE, Call

from .. import headers
from ..presets import record
from ..segments import TEXT as SEGMENTS_KEYS
from ..support.edges import (DENORMAL_MIN, GENERATED, INFINITY, NAN, SPREAD, checksum, generated,
                            spread_blocks)
from . import cases

GROUPS_TEXT = f"""
One group of Rice codes, written and read (FORMAT.md section 20).
rounding; is_sum: 0 or 1, whether the values are a sum, which is encoded at hop 1; rank, rank_count;
seed, stream_id, step, index; first_value: of the group in the call; stride_values: from one granule
to the next there; value_count, planes: of the group; salt: of its generated float32 values, which
lie granule by granule; factor: float32, which multiplies them. {SPREAD}
special_elements: integers, special_values: float32, where any: in place of generated ones.
words: of the group, hex; result: float32 that they are read as; or words_checksum, ..: sum over k
of (2 k + 1) * pattern k, modulo 2^64, in decimal.
{GENERATED}"""

ALLREDUCE_TEXT = f"""
Whole allreduces with Rice codes (FORMAT.md section 20). Keys as in allreduce_presets.txt, but for
mean_bits, a decimal number, in place of bits and bits_down; there are no norms and scales; words in
the order of groups; nodes, of the hierarchical schedule: an id for each rank.
{SPREAD}
{GENERATED}"""

SEGMENTS_TEXT = f"""{SEGMENTS_KEYS}
{SPREAD}
Codes are Rice codes (FORMAT.md section 20)."""

HEADER_TEXT = f"""{headers.DESCRIPTION}
Here levels are rice: mean_bits, a decimal number, is in place of bits and bits_down (FORMAT.md
section 20)."""

_CALL = Call(seed=0x243F6A8885A308D3, stream_id=1, step=20, index=3)
_SALT, _SPREAD = 83, 23
_MEANS = (4, 2.5, 3, 5, 8, 6, 3.5, 7.5)
_ROUNDINGS = ("correlated", "independent", "nearest")


def _group_bits(form, rank, is_sum, first_value, stride_values, value_count):
    """r(e) of the group's values."""
    if is_sum and not form.nearest:
        draw = lambda begin, count: rounding_bits(_CALL, REENCODE, rank, 1, begin, count)
    else:
        draw = lambda begin, count: quantize_bits(form, _CALL, rank, begin, count)
    return np.concatenate([draw(first_value + done // 1024 * stride_values,
                                min(1024, value_count - done))
                           for done in range(0, value_count, 1024)])


def _group_record(case, value_count, planes, *, rounding="correlated", is_sum=False, rank=1,
                  rank_count=4, first_value=2048, stride_values=3072, spread=_SPREAD, special=(),
                  factor=1, printed=False):
    form = Format("rice", 0, "wide", rank_count, 0, rounding, mean_bits=4)
    with np.errstate(under="ignore"):
        values = spread_blocks(generated(_SALT, rank, value_count), spread) * np.float32(factor)
    for element, value in special:
        values[element] = value
    r = _group_bits(form, rank, is_sum, first_value, stride_values, value_count)
    words = rice.encode(values, planes, form.nearest, rice.margin_of(form, is_sum, rank), r)
    answer = {"words": words, "result": rice.decode(words, value_count)}
    if not printed:
        answer = {"words_checksum": checksum(words),
                  "result_checksum": checksum(answer["result"].view(np.uint32))}
    shown = {}
    if special:
        elements, replaced = zip(*special)
        shown = {"special_elements": elements, "special_values": np.float32(replaced)}
    return {"case": case, "rounding": rounding, "is_sum": int(is_sum), "rank": rank,
            "rank_count": rank_count, "seed": _CALL.seed, "stream_id": _CALL.stream_id,
            "step": _CALL.step, "index": _CALL.index, "first_value": first_value,
            "stride_values": stride_values, "value_count": value_count, "planes": planes,
            "salt": _SALT, "spread": spread, "factor": np.float32(factor), **shown, **answer}


def _planes(value_count, mean_bits, is_sum=False):
    return rice.planes_of(mean_bits, -(-value_count // 128), 1, value_count, is_sum)


def groups():
    """Every kind of cell and of rounding, all lengths of tails, both ends of the steps."""
    one = lambda case, count, mean=4, **more: _group_record(
        case, count, _planes(count, mean, more.get("is_sum", False)), **more)
    kinds = [(3, NAN), (40, INFINITY), (70, -INFINITY)]
    zeros = [(element, 0) for element in range(64, 96)]
    small = [one("printed", 70, printed=True), one("one_value", 1, printed=True),
             one("kinds_of_cells", 140, special=kinds + zeros[:26], printed=True),
             one("zeros", 96, special=[(element, 0) for element in range(96)], printed=True),
             one("zeros_and_nan", 64, special=[(element, 0) for element in range(1, 64)]
                 + [(0, NAN)], printed=True),
             one("largest", 64, special=[(element, FLT_MAX) for element in range(64)],
                 printed=True),
             one("denormals", 64, special=[(element, DENORMAL_MIN * (element - 30))
                                           for element in range(64)], printed=True)]
    tails = [one(f"tail_{count}", count) for count in (2, 31, 32, 33, 127, 129, 1023, 1025, 1056)]
    long = [one(f"{rounding}_{mean:g}_{'sum' if is_sum else 'codes'}", 5000, mean,
                rounding=rounding, is_sum=is_sum, rank_count=(4, 3)[turn % 2])
            for turn, mean in enumerate(_MEANS)
            for rounding in _ROUNDINGS for is_sum in (False, True)]
    # More planes than codes of the least step fill; the fewest that there are.
    ends = [_group_record("all_steps_fit", 3000, 900),
            _group_record("fewest_planes", 3000, rice.planes_of(2.5, 0, 1, 3000, False)),
            one("no_step_fits", 200, 2.5, special=[(k, FLT_MAX) for k in range(200)]),
            one("large", 3000, factor=2.0**100), one("tiny", 3000, factor=2.0**-120)]
    whole = [one("whole", 32768), one("whole_uneven", 32768, 3, spread=100),
             one("whole_even", 32767, 5, spread=1, rounding="independent")]
    return small + tails + long + ends + whole


def _fields(turn):
    return {"levels": "rice", "bits": 0, "combine": "exact", "call": _CALL,
            "mean_bits": _MEANS[turn % len(_MEANS)], "rounding": _ROUNDINGS[turn % 3],
            "op": ("mean", "sum")[turn // 2 % 2]}


def _whole(name, request, ranks, count, printed=False, places=()):
    """A record without what there is not: norms and scales."""
    made = record(name, request, ranks, count, 84, printed, places, _SPREAD)
    return {key: value for key, value in made.items()
            if not key.startswith(("norm", "scale"))}


def allreduces():
    """Whole calls."""
    return cases.allreduces(_whole, _fields)


def segments():
    """Tensors and slices."""
    return cases.segments(_fields, _SPREAD)


def header_words():
    """Each end of the mean and what lies between, alone."""
    return [headers.record(f"mean_{mean:g}", {"schedule": "direct", "value": np.float32(0)},
                           {"levels": "rice", "rounding": "correlated", "mean_bits": mean})
            for mean in np.arange(2.5, 8.5, 0.5)]


FILES = {"groups_rice.txt": (GROUPS_TEXT, groups),
         "allreduce_rice.txt": (ALLREDUCE_TEXT, allreduces),
         "segments_rice.txt": (SEGMENTS_TEXT, segments),
         "header_rice.txt": (HEADER_TEXT, header_words)}
