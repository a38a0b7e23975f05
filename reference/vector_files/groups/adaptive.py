"""Cases for adaptive widths: of blocks, of the stages of a group, and whole calls."""

import numpy as np
from gqsgd_reference import adaptive
from gqsgd_reference.allreduce import Request, format_of, places_of, shared_norm
from gqsgd_reference.hierarchy import nodes_string
from gqsgd_reference.random import Call

from .. import headers
from ..presets import SPECIAL, record
from ..segments import TEXT as SEGMENTS_KEYS
from ..support.edges import GENERATED, SPREAD, checksum, generated, spread_blocks
from . import cases

WIDTHS_TEXT = """
Bits of the blocks of one group (FORMAT.md section 16).
planes: P, an integer. norms: codes of the blocks' global norms, 4 hex digits each. widths: bits of
each block, integers."""

GROUPS_TEXT = f"""
One group of an allreduce in the direct schedule, stage by stage (FORMAT.md section 16).
mean_bits: a decimal number; rounding; rounding_down; rescale: 0 or 1; rank_count; op: sum or mean;
seed, stream_id, step, index; value_count: of the call; group: its number; salt: of the generated
float32 inputs of all ranks: integers. {SPREAD}
planes: P; blocks: of the group; norms: codes of their global norms; widths: their bits.
words: what the owner's codes become; sum_words, scales: of the sum of all ranks, which the owner
encodes; result: float32 of the group's elements in order; or words_checksum, ..: sum over k of
(2 k + 1) * pattern k, modulo 2^64, in decimal.
owner: the rank that owns the group.
{GENERATED}"""

ALLREDUCE_TEXT = f"""
Whole allreduces with adaptive widths (FORMAT.md section 16). Keys as in allreduce_presets.txt, but
for width: adaptive and mean_bits: a decimal number, in place of bits and bits_down; words in the
order of groups; nodes, of the hierarchical schedule: an id for each rank.
{SPREAD}
{GENERATED}"""

SEGMENTS_TEXT = f"""{SEGMENTS_KEYS}
{SPREAD}
Codes have adaptive widths (FORMAT.md section 16)."""

HEADER_TEXT = f"""{headers.DESCRIPTION}
Here width is adaptive: mean_bits, a decimal number, is in place of bits and bits_down (FORMAT.md
section 16)."""

_CALL = Call(seed=0x243F6A8885A308D3, stream_id=1, step=20, index=3)
_SPREAD = 23
_MEANS = (4, 2.5, 3, 5, 8, 6, 3.5, 7.5)


def _widths_record(case, planes, norms):
    return {"case": case, "planes": planes, "norms": np.uint16(norms),
            "widths": [int(width) for width in adaptive.widths_of(norms, planes)]}


def widths():
    """Ties, zeros, poison, one block, both ends of the budget, and norms of every size."""
    one = [_widths_record(f"one_block_{planes}", planes, [0x3F80]) for planes in (2, 3, 7, 8, 20)]
    none = [_widths_record("no_codes", 9, [0, 0x7FFF, 0, 0xFFFF])]
    ends = [_widths_record(f"ends_{planes}", planes, [1, 0x7F80, 0x7F81, 0, 0x7F7F, 2])
            for planes in (8, 9, 12, 20, 25, 31, 32, 40)]
    ties = [_widths_record(f"equal_{planes}", planes, [0x4000] * 9) for planes in
            (18, 19, 30, 45, 71, 72)]
    apart = [0x4000 - offset for offset in (0, 421, 742, 1028, 1298, 1561)]
    ties += [_widths_record(f"offsets_{planes}", planes, [*apart, *reversed(apart)])
             for planes in (25, 31, 40, 53)]
    mixed = (np.arange(256) * 40503 + 977) % 2400 + 15000
    some = np.where(np.arange(256) % 11 == 3, 0, mixed)
    poisoned = np.where(np.arange(256) % 17 == 5, 0x7FFF, some)
    every = np.arange(256) * 128
    return one + none + ends + ties + [
        _widths_record(f"{name}_{mean:g}", int(256 * mean), norms)
        for name, norms in (("mixed", mixed), ("poisoned", poisoned), ("every_octave", every))
        for mean in (2.5, 4, 8)]


def _of_group(per_element, granules):
    """What each element of the call has, for the elements of a group."""
    return np.concatenate([per_element[granule * adaptive.GRANULE:(granule + 1) * adaptive.GRANULE]
                           for granule in granules])


def _group_record(case, request, rank_count, value_count, group, printed):
    form = format_of(request, rank_count)
    values = [spread_blocks(generated(81, rank, value_count), _SPREAD)
              for rank in range(rank_count)]
    norms = shared_norm(request, values)
    groups = adaptive.groups_of(value_count, rank_count, request.mean_bits)
    widths_of_blocks = adaptive.widths_of_call(groups, norms)
    codes = [adaptive.quantize(form, _CALL, rank, x, norms, widths_of_blocks)
             for rank, x in enumerate(values)]
    places = places_of(request, rank_count)
    owner = places[group // -(-len(groups.granules) // len(places))]
    sums, scales = adaptive.add_call(request, form, groups, places, codes, norms, widths_of_blocks)
    decoded = adaptive.dequantize(form, sums, scales, widths_of_blocks, request.op, _CALL)
    blocks, present = groups.blocks(group, len(norms)), np.ones(value_count, dtype=bool)

    def words(signed):
        return np.split(adaptive.words_of_call(groups, signed, widths_of_blocks, present),
                        len(groups.granules))[group]
    answer = {"words": words(codes[owner]), "sum_words": words(sums), "scales": scales[blocks],
              "result": _of_group(decoded, groups.granules[group])}
    if not printed:
        answer["result"] = answer["result"].view(np.uint32)
        answer = {f"{key}_checksum": checksum(value) for key, value in answer.items()}
    return {"case": case, "mean_bits": f"{request.mean_bits:g}", "rounding": request.rounding,
            "rounding_down": request.rounding_down, "rescale": int(request.rescale),
            "rank_count": rank_count, "op": request.op, "seed": _CALL.seed,
            "stream_id": _CALL.stream_id, "step": _CALL.step, "index": _CALL.index,
            "value_count": value_count, "group": group, "salt": 81, "spread": _SPREAD,
            "owner": owner, "planes": groups.planes, "blocks": len(blocks),
            "norms": norms[blocks], "widths": [int(width) for width in widths_of_blocks[blocks]],
            **answer}


def _fields(turn):
    """Fields of a request, each of them by turns."""
    rounding = ("correlated", "independent", "nearest")[turn % 3]
    return {"levels": "linear", "bits": 0, "combine": "exact", "block": 128, "call": _CALL,
            "mean_bits": _MEANS[turn % len(_MEANS)], "rounding": rounding,
            "op": ("mean", "sum")[turn // 2 % 2], "rescale": turn % 4 != 1,
            "rounding_down": "subtractive" if turn % 5 == 3 and rounding != "nearest" else "random"}


def groups():
    """A short group in full; groups of several granules, with their words in one number."""
    records = [_group_record("short", Request("direct", **_fields(0)), 2, 300, 0, True)]
    for turn, (rank_count, value_count, group) in enumerate(
            ((1, 2500, 0), (3, 20000, 1), (3, 20000, 2), (2, 33000, 1), (5, 8193, 1),
             (2, 70001, 3), (3, 9000, 1), (8, 1024, 0))):
        case = f"{rank_count}_{value_count}_{group}"
        request = Request("direct", **_fields(turn + 1))
        records.append(_group_record(case, request, rank_count, value_count, group, False))
    return records


def allreduces():
    """Whole calls; every record has norms and scales. One over nodes has a poisoned block."""
    def made(name, request, ranks, count, printed=False, places=()):
        return record(name, request, ranks, count, 82, printed, places, _SPREAD)
    nodes = (0, 1, 0, 1, 1)
    poisoned = made("nodes_poisoned", Request("hierarchical", nodes=nodes, **_fields(18)),
                    len(nodes), 3000, False, SPECIAL["nan"])
    return [*cases.allreduces(made, _fields), {**poisoned, "nodes": nodes_string(nodes)}]


def segments():
    """Tensors and slices."""
    return cases.segments(_fields, _SPREAD)


def header_words():
    """Each end of the mean and what lies between, alone."""
    adaptive_fields = {"block": 128, "rescale": True, "rounding": "correlated"}
    return [headers.record(f"mean_{mean:g}", {"schedule": "direct", "value": np.float32(0)},
                           {**adaptive_fields, "mean_bits": mean})
            for mean in np.arange(2.5, 8.5, 0.5)]


FILES = {"widths.txt": (WIDTHS_TEXT, widths), "groups_adaptive.txt": (GROUPS_TEXT, groups),
         "allreduce_adaptive.txt": (ALLREDUCE_TEXT, allreduces),
         "segments_adaptive.txt": (SEGMENTS_TEXT, segments),
         "header_adaptive.txt": (HEADER_TEXT, header_words)}
