"""The randomised Hadamard rotation of up to 1024 elements at a time (FORMAT.md section 12)."""

import numpy as np

from .floats import bits, float32_of, ieee
from .random import SIGNS, counters, key, philox4x32

ROTATION_VALUE_COUNT = 1024
ROTATION_VALUE_COUNT_MIN = 128


def padded_count(value_count):
    """Codes of `value_count` elements."""
    return -(-value_count // ROTATION_VALUE_COUNT_MIN) * ROTATION_VALUE_COUNT_MIN


def rotations(code_count):
    """[(length, begin, end, shrink, grow)]: stretches of rotations of one length. Those of 1024 may
    be many; of each of the last ones there is at most one."""
    whole = code_count // ROTATION_VALUE_COUNT * ROTATION_VALUE_COUNT
    found, begin = [(ROTATION_VALUE_COUNT, 0, whole, 2.0**-10, 1)] if whole else [], whole
    for length, shrink, grow in ((512, 2.0**-10, 2), (256, 2.0**-9, 2), (128, 2.0**-9, 4)):
        if (code_count - whole) & length:
            found.append((length, begin, begin + length, shrink, grow))
            begin += length
    return found


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
    """H of the float32 values of each rotation."""
    turned = np.empty_like(values)
    for length, begin, end, _, _ in rotations(len(values)):
        stretch, distance = values[begin:end], 1
        while distance < length:
            pairs = stretch.reshape(-1, 2, distance)
            a, b = pairs[:, 0], pairs[:, 1]
            stretch = np.stack([a + b, a - b], axis=1).reshape(-1)
            distance *= 2
        turned[begin:end] = stretch
    return turned


@ieee
def rotate(call, values, first_value=0):
    """y of float32 values, filled up to a multiple of 128 with zeros."""
    padded = np.zeros(padded_count(len(values)), dtype=np.float32)
    padded[:len(values)] = values
    for _, begin, end, shrink, _ in rotations(len(padded)):
        padded[begin:end] *= np.float32(shrink)
    flips = sign_flips(call, first_value, len(padded))
    return hadamard(float32_of(bits(padded) ^ flips))


@ieee
def rotate_back(call, values, value_count, first_value=0):
    """The first `value_count` of the float32 values that decoded ones were rotated from."""
    flips = sign_flips(call, first_value, len(values))
    sums = hadamard(values)
    for _, begin, end, _, grow in rotations(len(sums)):
        sums[begin:end] *= np.float32(grow)
    turned = float32_of(bits(sums) ^ flips)
    return (turned + np.float32(0))[:value_count]  # a zero is +0.0
