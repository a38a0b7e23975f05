"""Cases for the header: every field at zero, at one and at its largest."""

import numpy as np
from gqsgd_reference.floats import FLT_MAX
from gqsgd_reference.header import Header, header_words
from gqsgd_reference.hierarchy import nodes_string

from .support.edges import INFINITY

DESCRIPTION = """
The 20 words of a header (FORMAT.md section 11).
sequence, status, value_count, seed, stream_id, step, index, tag, chunk_value_count: integers;
dtype: float32, float16, bfloat16 or float64; op: sum or mean; schedule: ring, tree, butterfly,
direct, hierarchical, native or sparse; nodes, of the hierarchical one: an id for each rank.
levels, bits, bits_down, q, p, block, rounding, rounding_down, rotate, combine, rescale (0 or 1),
mantissa_bits, nonfinite: the quantizer. digest: an integer; checksum: off or crc32c.
value: this rank's norm, float32 (8 digits) if q = p = inf, else float64 (16 digits); an integer in
case entry_count, a second header.
words: hex."""

_QUANTIZER = {"levels": "linear", "bits": 8, "bits_down": 8, "q": "inf", "p": "inf", "block": 0,
              "rounding": "independent", "rounding_down": "random", "rotate": "none",
              "combine": "exact", "rescale": False, "mantissa_bits": 0, "nonfinite": "poison"}
_HEADER = {"sequence": 1, "dtype": "float32", "op": "mean", "schedule": "ring",
           "value_count": 1000, "seed": 0, "stream_id": 0, "step": 0, "index": 0, "tag": 0,
           "chunk_value_count": 65536, "value": np.float32(1), "status": 0,
           "digest": 0, "checksum": "off"}

# One record per entry: what differs from the plain header above.
_CHANGES = {
    "plain": {}, "sequence_wraps": {"sequence": 2**32 + 5}, "no_values": {"value_count": 0},
    "value_count_large": {"value_count": 2**44 - 1}, "seed": {"seed": 0x0123456789ABCDEF},
    "counters_largest": {"stream_id": 2**32 - 1, "step": 2**32 - 1, "index": 2**16 - 1},
    "tag": {"tag": 0xDEADBEEF}, "chunk": {"chunk_value_count": 32}, "status": {"status": 80},
    "norm_zero": {"value": np.float32(0)}, "norm_flt_max": {"value": FLT_MAX},
    "norm_infinite": {"value": INFINITY},
    **{dtype: {"dtype": dtype} for dtype in ("float16", "bfloat16", "float64")},
    "sum": {"op": "sum"}, **{name: {"schedule": name} for name in ("tree", "butterfly", "direct",
                                                             "native", "sparse")},
    "hierarchical": {"schedule": "hierarchical", "nodes": (7, 3, 7, 3, 3, 900)},
    "one_node": {"schedule": "hierarchical", "nodes": (0, 0), "value_count": 2**44 - 1},
    "digest": {"digest": 0xFEDCBA9876543210}, "checksum": {"checksum": "crc32c"},
    "digest_and_checksum": {"digest": 1, "checksum": "crc32c", "seed": 7},
    "entry_count": {"schedule": "sparse", "value": 2**32 + 5},
}
_QUANTIZER_CHANGES = {
    "exponential8": {"levels": "exponential", "combine": "sum"},
    "exponential4": {"levels": "exponential", "bits": 4, "bits_down": 4, "combine": "average"},
    "linear4": {"bits": 4, "bits_down": 4, "combine": "average"},
    "none": {"levels": "none", "bits": 32, "bits_down": 32},
    "bf16": {"levels": "bf16", "bits": 16, "bits_down": 16},
    "fp16": {"levels": "fp16", "bits": 16, "bits_down": 16},
    "bits_4_8": {"bits": 4, "combine": "average"}, "block_32": {"block": 32},
    "block_128": {"block": 128}, "block_65536": {"block": 65536},
    "correlated": {"rounding": "correlated"}, "nearest": {"rounding": "nearest"},
    "subtractive": {"rounding_down": "subtractive"}, "hadamard": {"rotate": "hadamard"},
    "rescale": {"rescale": True}, "mantissa_bits_2": {"mantissa_bits": 2},
    "nonfinite_error": {"nonfinite": "error"},
}


def record(case, changes, quantizer_changes):
    fields = {**_HEADER, **changes}
    quantizer = {**_QUANTIZER, **quantizer_changes}
    words = header_words(Header(quantizer=quantizer, **fields))
    shown = {**quantizer, "rescale": int(quantizer["rescale"])}
    if "mean_bits" in quantizer:
        del shown["bits"], shown["bits_down"]
        shown["mean_bits"] = f"{quantizer['mean_bits']:g}"
    if "nodes" in fields:
        fields["nodes"] = nodes_string(fields["nodes"])
    return {"case": case, **{key: fields[key] for key in fields if key != "value"}, **shown,
            "value": fields["value"], "words": np.array(words, dtype=np.uint32)}


def headers():
    """Each field changed alone, so that a wrong place shows; then all (q, p) with a float64."""
    records = [record(case, changes, {}) for case, changes in _CHANGES.items()]
    records += [record(case, {}, changes) for case, changes in _QUANTIZER_CHANGES.items()]
    for q in ("inf", "1", "2"):
        for p in ("inf", "1", "2"):
            value = np.float32(0.1) if q == p == "inf" else np.float64(0.1)
            records.append(record(f"norm_{q}_{p}", {"value": value}, {"q": q, "p": p}))
    return records


FILES = {"header.txt": (DESCRIPTION, headers)}
