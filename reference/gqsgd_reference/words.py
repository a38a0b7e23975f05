"""Codes in 32-bit words: which bits hold which element (FORMAT.md section 1)."""

import numpy as np


def word_count(value_count, bits):
    """Words that hold `value_count` codes."""
    codes_per_word = 32 // bits
    return -(-value_count // codes_per_word)


def pack(lanes, bits):
    """Words of unsigned lanes; the lanes beyond the last are 0."""
    codes_per_word = 32 // bits
    padded = np.zeros(word_count(len(lanes), bits) * codes_per_word, dtype=np.uint64)
    padded[:len(lanes)] = lanes
    shifts = np.arange(codes_per_word, dtype=np.uint64) * np.uint64(bits)
    shifted = padded.reshape(-1, codes_per_word) << shifts
    return np.bitwise_or.reduce(shifted, axis=1).astype(np.uint32)


def unpack(words, bits, value_count):
    """The first `value_count` lanes as int64."""
    codes_per_word = 32 // bits
    shifts = np.arange(codes_per_word, dtype=np.uint64) * np.uint64(bits)
    lanes = (np.asarray(words, dtype=np.uint64)[:, None] >> shifts) & np.uint64(2**bits - 1)
    return lanes.reshape(-1)[:value_count].astype(np.int64)


def pack_signed(negative, codes, bits):
    """Words of exponential codes: sign bit above the code, and no negative zero."""
    sign = (np.asarray(negative) & (codes > 0)).astype(np.int64)
    return pack(sign << (bits - 1) | codes, bits)


def unpack_signed(words, bits, value_count):
    """(negative, codes) of exponential lanes."""
    lanes = unpack(words, bits, value_count)
    return lanes >> (bits - 1) == 1, lanes & (2**(bits - 1) - 1)
