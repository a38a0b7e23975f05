"""Random words: Philox4x32-10 counted by element, draw, step and rank (FORMAT.md section 2).

What a word decides is the business of the stages.
"""

from dataclasses import dataclass

import numpy as np

# Draws.
QUANTIZE, STRATUM_A, STRATUM_B, REDUCE, REENCODE, SUBTRACTIVE, SIGNS, OUTPUT = range(8)

_LOW32 = np.uint64(0xFFFFFFFF)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_INCREMENTS = (0x9E3779B9, 0xBB67AE85)


@dataclass(frozen=True)
class Call:
    """What keys the random words of one allreduce: equal on all its ranks."""

    seed: int = 0
    stream_id: int = 0
    step: int = 0
    index: int = 0


def philox4x32(counter, key):
    """Ten rounds on uint64 arrays of 32-bit words. counter: shape (.., 4); key: two integers."""
    c0, c1, c2, c3 = np.moveaxis(np.asarray(counter, dtype=np.uint64), -1, 0)
    k0, k1 = key
    for _ in range(10):
        left, right = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (right >> np.uint64(32)) ^ c1 ^ np.uint64(k0), right & _LOW32,
            (left >> np.uint64(32)) ^ c3 ^ np.uint64(k1), left & _LOW32)
        k0 = (k0 + _KEY_INCREMENTS[0]) % 2**32
        k1 = (k1 + _KEY_INCREMENTS[1]) % 2**32
    return np.stack([c0, c1, c2, c3], axis=-1)


def key(call):
    """(k0, k1) of a call."""
    mixed = call.seed ^ (call.stream_id * 0x9E3779B97F4A7C15 % 2**64)
    return mixed % 2**32, mixed >> 32


def counters(call, draw, rank, hop, groups):
    """Rows (c0, c1, c2, c3) of groups of 16 elements; every field must fit its place."""
    groups = np.asarray(groups, dtype=np.uint64)
    limits = {"group": (int(groups.max()), 2**40), "draw": (draw, 2**8), "rank": (rank, 2**20),
              "index": (call.index, 2**16), "step": (call.step, 2**32)}
    for name, (value, limit) in limits.items():
        if not 0 <= value < limit:
            raise ValueError(f"{name} is {value}; it must be at least 0 and below {limit}")
    rows = np.zeros((len(groups), 4), dtype=np.uint64)
    rows[:, 0] = groups & _LOW32
    rows[:, 1] = groups >> np.uint64(32) | np.uint64(draw << 8 | call.index << 16)
    rows[:, 2] = call.step
    rows[:, 3] = rank | (hop % 4096) << 20
    return rows


def rotr(word, k):
    """32-bit rotation to the right, elementwise on uint64 arrays."""
    return ((word >> k) | (word << (np.uint64(32) - k))) & _LOW32


def random_words(call, draw, rank, hop, first_value, value_count):
    """R(e) of `value_count` elements from e = first_value on, as uint64."""
    if value_count == 0:
        return np.zeros(0, dtype=np.uint64)
    first_group, last_group = first_value // 16, (first_value + value_count - 1) // 16
    groups = np.arange(first_group, last_group + 1, dtype=np.uint64)
    output = philox4x32(counters(call, draw, rank, hop, groups), key(call))
    words_of_groups = output.reshape(-1)  # four after one another for each group
    e = first_value + np.arange(value_count, dtype=np.uint64)
    word = words_of_groups[(e // np.uint64(4) - np.uint64(4 * first_group)).astype(np.int64)]
    return rotr(word, np.uint64(8) * ((e + np.uint64(1)) % np.uint64(4)))
