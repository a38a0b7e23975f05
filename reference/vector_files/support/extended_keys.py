"""Keys that records of the extended formats share: the format's fields, the call, norms by kind."""

import numpy as np

FORMAT_KEYS = """\
levels; bits; bits_down; combine: exact, average or sum, or wide for the direct schedule, whatever
the quantizer's combine is; rank_count; combines: longest chain of reductions, 0 for wide;
rounding: independent, correlated or nearest; rounding_down: random or subtractive; block: 0 for one
norm; rotate: none or hadamard; rescale: 0 or 1; mantissa_bits: 0 or 2.
seed, stream_id, step, index; rank: the one that runs the stage; first_value, value_count: integers.
With rotation value_count is that of plain values, words hold the next multiple of 128 codes."""

# Zero, denormals and their last, normal numbers at both ends, the code of FLT_MAX, NaN.
NORM_CODES = np.uint16([0x3F80, 0, 0x0001, 0x007F, 0x0080, 0x3DCD, 0x7F7F, 0x7F80, 0x7FFF])


def format_keys(case, form):
    """The first keys of a record."""
    return {"case": case, "levels": form.levels, "bits": form.bits,
            "bits_down": form.down.bits, "combine": form.combine, "rank_count": form.rank_count,
            "combines": form.reduction_depth, "rounding": form.rounding,
            "rounding_down": form.rounding_down, "block": form.block, "rotate": form.rotate,
            "rescale": int(form.rescale), "mantissa_bits": form.mantissa_bits}


def call_keys(call, rank, first_value, value_count):
    """Where the random words come from."""
    return {"seed": call.seed, "stream_id": call.stream_id, "step": call.step, "index": call.index,
            "rank": rank, "first_value": first_value, "value_count": value_count}


def numbers(name, form, values):
    """{norm: float32} or {norms: codes}; name is norm or scale."""
    if form.block > 0:
        return {f"{name}s": np.asarray(values, dtype=np.uint16)}
    return {name: np.float32(values)}
