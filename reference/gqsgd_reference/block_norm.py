"""Norms and scales of blocks as 16-bit codes (FORMAT.md section 4)."""

import numpy as np

from .floats import FLT_MAX, NAN_PATTERN, bits, float32_of

NAN_CODE = 0x7FFF
_FLT_MAX_CODE = 0x7F80  # the one code that is not the upper half of what it stands for
_INFINITY = 0x7F800000


def norm_codes(magnitude_patterns):
    """uint16 codes of patterns without sign: the upper half, rounded up."""
    patterns = np.asarray(magnitude_patterns, dtype=np.uint64)
    rounded_up = (patterns + np.uint64(0xFFFF)) >> np.uint64(16)
    return np.where(patterns >= _INFINITY, NAN_CODE, rounded_up).astype(np.uint16)


def norms_of(codes):
    """The float32 that each code stands for."""
    codes = np.asarray(codes, dtype=np.uint32)
    norms = float32_of(np.where(codes < _FLT_MAX_CODE, codes << np.uint32(16), 0))
    norms = np.where(codes == _FLT_MAX_CODE, FLT_MAX, norms)
    return np.where(codes > _FLT_MAX_CODE, float32_of(NAN_PATTERN["float32"]), norms)


def block_count(value_count, block):
    """Blocks of `value_count` values; the last may be shorter."""
    return -(-value_count // block)


def largest_per_block(patterns, block):
    """The largest unsigned integer of each block."""
    padded = np.zeros(block_count(len(patterns), block) * block, dtype=np.uint32)
    padded[:len(patterns)] = patterns
    return padded.reshape(-1, block).max(axis=1, initial=0)


def block_codes(values, block):
    """The norm codes of float32 values whose first begins a block."""
    return norm_codes(largest_per_block(bits(values) & np.uint32(0x7FFFFFFF), block))


def merge_codes(codes_of_ranks):
    """The global norm codes: the largest over ranks."""
    return np.max(np.stack(codes_of_ranks), axis=0)


def per_element(norms, block, value_count):
    """float32 norms of elements: block = 0 gives the one norm itself, else norms are codes."""
    if block == 0:
        return np.float32(norms)
    return np.repeat(norms_of(norms), block)[:value_count]
