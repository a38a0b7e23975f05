"""The 80 bytes that every rank publishes before any code moves (FORMAT.md section 11)."""

import struct
from dataclasses import dataclass

import numpy as np

from .floats import bits
from .hierarchy import nodes_digest
from .integrity import crc32c

WIRE_VERSION = 2
DTYPES = {"float32": 0, "float16": 1, "bfloat16": 2, "float64": 3}
OPS = {"sum": 0, "mean": 1}
SCHEDULES = {"ring": 1, "tree": 2, "butterfly": 3, "direct": 4, "hierarchical": 5, "native": 6,
             "sparse": 7}
CHECKSUMS = {"off": 0, "crc32c": 1}
_ALLREDUCE = 1

# (field, bits, number of each value), from bit 0 of word 6 upwards.
_FIELDS = (
    ("levels", 2, {"linear": 0, "exponential": 1, "none": 2, "bf16": 3, "fp16": 0, "rice": 1}),
    ("bits", 2, {4: 0, 8: 1, 32: 2, 16: 3}),
    ("bits_down", 2, {4: 0, 8: 1, 32: 2, 16: 3}),
    ("q", 2, {"inf": 0, "1": 1, "2": 2}),
    ("p", 2, {"inf": 0, "1": 1, "2": 2}),
    ("block", 5, {0: 0, **{2**k: k for k in range(5, 17)}}),
    ("rounding", 2, {"independent": 0, "correlated": 1, "nearest": 2}),
    ("rounding_down", 1, {"random": 0, "subtractive": 1}),
    ("rotate", 1, {"none": 0, "hadamard": 1}),
    ("combine", 2, {"exact": 0, "sum": 1, "average": 2}),
    ("rescale", 1, {False: 0, True: 1}),
    ("mantissa_bits", 2, {0: 0, 1: 1, 2: 2, 3: 3}),
    ("nonfinite", 1, {"poison": 0, "error": 1}),
)


@dataclass(frozen=True)
class Header:
    """One rank's header.

    value: the rank's norm, float32 if q = p = inf, else its float64 v; 0 for norms per block, which
        travel later; in the second header of the sparse schedule the number of entries, an int.
    """

    sequence: int
    dtype: str
    op: str
    schedule: str
    value_count: int
    quantizer: dict
    seed: int
    stream_id: int
    step: int
    index: int
    tag: int
    chunk_value_count: int
    value: float | int
    status: int = 0
    nodes: tuple = ()  # of the hierarchical schedule: an id for each rank
    digest: int = 0  # of the call before
    checksum: str = "off"  # or "crc32c"


def quantizer_word(quantizer):
    """Word 6 of a quantizer whose fields are all named; mean_bits where codes have groups."""
    word, shift = (1 << 29 if quantizer["levels"] in ("fp16", "rice") else 0), 0
    if quantizer.get("mean_bits"):
        # Both fields of bits are 0 here.
        word |= 1 << 31 | int(2 * quantizer["mean_bits"] - 4) << 2
        quantizer = {**quantizer, "bits": 4, "bits_down": 4}
    for name, width, numbers in _FIELDS:
        word |= numbers[quantizer[name]] << shift
        shift += width
    return word


def norm_words(value, q, p):
    """Words 14 and 15."""
    if isinstance(value, int):
        return value % 2**32, value >> 32
    if q == "inf" and p == "inf":
        return int(bits(value)), 0
    pattern = int(np.float64(value).view(np.uint64))
    return pattern % 2**32, pattern >> 32


def header_words(header):
    """The 20 words."""
    kind = (_ALLREDUCE | DTYPES[header.dtype] << 8 | OPS[header.op] << 16
            | SCHEDULES[header.schedule] << 24)
    nodes = nodes_digest(header.nodes) if header.schedule == "hierarchical" else 0
    words = (
        0x5147 << 16 | WIRE_VERSION, header.status, header.sequence % 2**32, kind,
        header.value_count % 2**32, header.value_count >> 32 | nodes << 16,
        quantizer_word(header.quantizer),
        header.seed % 2**32, header.seed >> 32, header.stream_id, header.step, header.index,
        header.tag, header.chunk_value_count,
        *norm_words(header.value, header.quantizer["q"], header.quantizer["p"]),
        header.digest % 2**32, header.digest >> 32, CHECKSUMS[header.checksum])
    return *words, crc32c(struct.pack("<19I", *words)) if header.checksum == "crc32c" else 0


def header_bytes(header):
    """The 80 bytes on the wire, little-endian."""
    return struct.pack("<20I", *header_words(header))
