"""Values that travel as floats of 16 bits: levels bf16 and fp16 (FORMAT.md sections 5, 7 and 8)."""

import numpy as np

from .floats import ieee, narrow, widen
from .random import random_words
from .words import pack, unpack

DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


def is_narrow(levels):
    """Whether codes of these levels are floats of 16 bits."""
    return levels in DTYPES


def sum_factor(levels, rank_count):
    """2^k as a float32: sums of fp16 codes of so many ranks travel divided by it."""
    return np.float32(2**(rank_count - 1).bit_length() if levels == "fp16" else 1)


def encode(form, call, draw, rank, hop, values, first_value):
    """Packed words of float32 values."""
    R = random_words(call, draw, rank, hop, first_value, len(values))
    return pack(narrow(values, DTYPES[form.levels], R, form.nearest), form.bits)


@ieee
def decode(form, words, value_count, rank_count):
    """float32 values of codes, each the sum over `rank_count` ranks."""
    patterns = unpack(words, form.bits, value_count).astype(np.uint16)
    return widen(patterns, DTYPES[form.levels]) * sum_factor(form.levels, rank_count)
