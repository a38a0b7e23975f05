"""Cases for quantize with norms per block, correlated rounding, rotation or mantissa bits."""

from dataclasses import replace

import numpy as np
from gqsgd_reference.block_norm import block_codes, merge_codes, norms_of
from gqsgd_reference.levels import Format
from gqsgd_reference.quantize import quantize
from gqsgd_reference.random import Call
from gqsgd_reference.rotation import rotate

from .support.edges import NAN, NORMS, ONE, below, edge_values, generated
from .support.extended_keys import FORMAT_KEYS, NORM_CODES, call_keys, format_keys, numbers

DESCRIPTION = f"""
Values to packed codes in the extended formats (FORMAT.md section 5, rotation: section 12).
{FORMAT_KEYS}
norm: float32 for block 0, else norms: the global codes, 4 hex digits for each block;
values: float32; words: hex."""

_PLAIN = Call(seed=0x0123456789ABCDEF, stream_id=2, step=3, index=4)
_FRACTIONS = (1 / 2, 1 / 3, 1 / 127, 1.5 / 7, 0.999, 2.0**-24, 2.0**-31, 2.0**-62, 1.25 * 2.0**-63)

FORMS = {
    "linear8": Format("linear", 8, "average", 6, 5),
    "linear4": Format("linear", 4, "average", 6, 5),
    "exact8": Format("linear", 8, "exact", 6, 5), "wide8": Format("linear", 8, "wide", 6),
    "exponential8": Format("exponential", 8, "sum", 6, 3),
    "exponential4": Format("exponential", 4, "average", 6, 3),
    "mantissa": Format("exponential", 8, "wide", 6, mantissa_bits=2),
}


def _record(case, form, call, rank, first_value, norms, values):
    values = np.asarray(values, dtype=np.float32)
    stage = rotate(call, values, first_value) if form.rotate == "hadamard" else values
    words = quantize(form, call, rank, stage, norms, first_value)
    return {**format_keys(case, form), **call_keys(call, rank, first_value, len(values)),
            **numbers("norm", form, norms), "values": values, "words": words}


def block_of_values(code, block):
    """Edge values of one norm, cycled through a block; what NaN norms meet includes NaN."""
    norm = norms_of(code)[()]
    if np.isnan(norm):
        return np.resize(np.float32([1, NAN, -np.inf, 0]), block)
    return np.resize(edge_values(norm, _FRACTIONS) if norm > 0 else np.float32([0.0, -0.0]), block)


def _edges_of_norms(name, form, rounding):
    form = replace(form, block=32, rounding=rounding)
    values = np.concatenate([block_of_values(code, 32) for code in NORM_CODES])
    return _record(f"{name}_{rounding}_norms", form, _PLAIN, 1, 0, NORM_CODES, values)


def _tails_and_places(name, form):
    form = replace(form, block=64, rounding="correlated")
    records = []
    for first, count in ((0, 0), (0, 1), (0, 31), (0, 65), (64, 130), (2**44 - 128, 70)):
        norms = np.resize(NORM_CODES[[0, 5]], -(-count // 64))
        values = generated(3, 1, count) * np.float32(0.1)
        records.append(_record(f"{name}_{first}_{count}", form, _PLAIN, 3, first, norms, values))
    return records


def _groups_of_ranks(name, form):
    """One norm and correlated rounding among many ranks."""
    values = np.append(edge_values(ONE, (0.5, 0.3, 0.01)), generated(4, 0, 17))
    records = []
    for count, rank in ((1, 0), (2, 1), (3, 2), (4, 2), (8, 5), (17, 3), (1024, 1000), (1025, 1024),
                        (1027, 1025), (2**20, 2**20 - 1)):
        many = replace(form, rank_count=count, reduction_depth=min(form.reduction_depth, count - 1),
                       rounding="correlated")
        records.append(_record(f"{name}_{rank}_of_{count}", many, _PLAIN, rank, 0, ONE, values))
    return records


def _rotated(name, form):
    form = replace(form, rotate="hadamard", rounding="correlated", block=128)
    records = []
    for case, first, values in (
            ("5", 0, generated(5, 0, 5)), ("130", 1024, generated(5, 0, 130)),
            ("nan", 0, np.append(generated(5, 0, 9), NAN)), ("zeros", 0, np.zeros(3))):
        others = generated(5, 1, len(values))
        norms = merge_codes([block_codes(rotate(_PLAIN, x, first), 128) for x in (values, others)])
        records.append(_record(f"{name}_rotated_{case}", form, _PLAIN, 2, first, norms, values))
    return records


def _mantissa():
    """Every kind of norm for one norm per call; sub-levels near the smallest and the largest."""
    form, records = FORMS["mantissa"], []
    for place, (name, norm) in enumerate(NORMS.items()):
        values = edge_values(norm, _FRACTIONS)
        records.append(_record(f"mantissa_norm_{name}", form, _PLAIN, 1, 64 * place, norm, values))
    unit = 2.0**-30 / 1.75
    levels = [quarters * unit for quarters in (0.25, 0.5, 0.75, 1, 1.25, 2, 0.1, 0.125, 1.1)]
    levels += [1.5 / 1.75, 1.25 / 1.75, 1 / 1.75, below(1 / 1.75), 1.625 / 1.75, 1.374 / 1.75]
    for rounding in ("independent", "nearest"):
        values = edge_values(ONE, levels)
        records.append(_record(f"mantissa_levels_{rounding}", replace(form, rounding=rounding),
                               _PLAIN, 1, 0, ONE, values))
    return records


def block_quantizes():
    """Each rule for each format that has it."""
    records = []
    for name, form in FORMS.items():
        records.append(_edges_of_norms(name, form, "correlated"))
    for name in ("linear4", "mantissa"):
        records.append(_edges_of_norms(name, FORMS[name], "nearest"))
    for name in ("linear4", "wide8", "exponential8"):
        records += _tails_and_places(name, FORMS[name])
    for name in ("linear8", "exponential4"):
        records += _groups_of_ranks(name, FORMS[name])
    for name in ("exact8", "exponential4"):
        records += _rotated(name, FORMS[name])
    one_norm = replace(FORMS["wide8"], rotate="hadamard")
    values = generated(6, 0, 20)
    norm = np.float32(np.abs(rotate(_PLAIN, values)).max())
    return [*records, *_mantissa(),
            _record("rotated_one_norm", one_norm, _PLAIN, 0, 0, norm, values)]


FILES = {"quantize_blocks.txt": (DESCRIPTION, block_quantizes)}
