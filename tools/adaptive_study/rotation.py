"""Hadamard rotations with random signs, inside tensors: orthonormal, in float32."""

import numpy as np

_LEAST = 128


class Rotation:
    """Rotations of `length` values; the end of a tensor in 512, 256 and 128 (FORMAT.md, 12)."""

    def __init__(self, starts, length, seed):
        random = np.random.default_rng([4, seed])
        self._signs = random.integers(2, size=starts[-1]).astype(np.float32) * 2 - 1
        pieces = {}
        for begin, end in zip(starts, starts[1:]):
            while begin < end:
                size = length
                while size > end - begin:
                    size //= 2
                assert size >= _LEAST, (begin, end)
                pieces.setdefault(size, []).append(begin)
                begin += size
        self._places = [np.asarray(begins)[:, None] + np.arange(size)
                        for size, begins in pieces.items()]

    def forth(self, values):
        """(.., values) float32, rotated."""
        found = np.empty_like(values)
        for places in self._places:
            found[..., places] = hadamard(values[..., places] * self._signs[places])
        return found

    def back(self, values):
        found = np.empty_like(values)
        for places in self._places:
            found[..., places] = hadamard(values[..., places]) * self._signs[places]
        return found


def hadamard(values):
    """The orthonormal transform of the last axis, whose length is a power of two."""
    length, distance = values.shape[-1], 1
    while distance < length:
        pairs = values.reshape(*values.shape[:-1], length // (2 * distance), 2, distance)
        values = np.stack([pairs[..., 0, :] + pairs[..., 1, :],
                           pairs[..., 0, :] - pairs[..., 1, :]], axis=-2)
        values = values.reshape(*pairs.shape[:-3], length)
        distance *= 2
    return values / np.sqrt(np.asarray(length, values.dtype))
