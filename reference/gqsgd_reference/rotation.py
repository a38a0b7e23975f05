"""The randomised Hadamard rotation of 1024 elements at a time (FORMAT.md section 12)."""

import numpy as np

from .floats import bits, float32_of, ieee
from .random import SIGNS, counters, key, philox4x32

ROTATION_VALUE_COUNT = 1024


def padded_count(value_count):
    """Codes of `value_count` elements."""
    return -(-value_count // ROTATION_VALUE_COUNT) * ROTATION_VALUE_COUNT


def sign_flips(call, first_value, value_count):
    """The sign bits, as uint32 0 or 2^31, of elements from a multiple of 1024 on."""
    if value_count == 0:
        return np.zeros(0, dtype=np.uint32)
    e = first_value + np.arange(value_count, dtype=np.uint64)
    first_group = first_value // 128
    groups = np.arange(first_group, (first_value + value_count - 1) // 128 + 1, dtype=np.uint64)
    words = philox4x32(counters(call, SIGNS, 0, 0, groups), key(call)).reshape(-1)
    word = words[(e // np.uint64(32) - np.uint64(4 * first_group)).astype(np.int64)]
    return (word >> e % np.uint64(32)).astype(np.uint32) << np.uint32(31)


@ieee
def hadamard(values):
    """H of each 1024 float32 values."""
    for distance in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
        pairs = values.reshape(-1, 2, distance)
        a, b = pairs[:, 0], pairs[:, 1]
        values = np.stack([a + b, a - b], axis=1).reshape(-1)
    return values


@ieee
def rotate(call, values, first_value=0):
    """y of float32 values, filled up to a multiple of 1024 with zeros."""
    padded = np.zeros(padded_count(len(values)), dtype=np.float32)
    padded[:len(values)] = values
    flips = sign_flips(call, first_value, len(padded))
    return hadamard(float32_of(bits(padded * np.float32(2.0**-10)) ^ flips))


@ieee
def rotate_back(call, values, value_count, first_value=0):
    """The first `value_count` of the float32 values that decoded ones were rotated from."""
    flips = sign_flips(call, first_value, len(values))
    turned = float32_of(bits(hadamard(values)) ^ flips)
    return (turned + np.float32(0))[:value_count]  # a zero is +0.0
