"""Rivals with a memory: what a step loses is added to the next one (error feedback)."""

import numpy as np


class PowerSgd:
    """Vogels et al., NeurIPS 2019: one power iteration for each matrix, from the last step's
    factors; what the mean lacks of a rank's own gradient stays there. Vectors are exact.
    """

    def __init__(self, shapes, rank, seed):
        self._shapes, self._rank = shapes, rank
        random = np.random.default_rng([10, seed])
        self._right = [random.standard_normal((columns, rank_of(shape, rank))).astype(np.float32)
                       for shape in shapes for columns in [_matrix(shape)[1]]]
        self._errors = None

    def __call__(self, inputs, step):
        if self._errors is None:
            self._errors = np.zeros_like(inputs)
        inputs = inputs + self._errors
        mean, place = np.empty(inputs.shape[1], np.float32), 0
        for number, shape in enumerate(self._shapes):
            rows, columns = _matrix(shape)
            piece = slice(place, place + rows * columns)
            own = inputs[:, piece].reshape(len(inputs), rows, columns)
            whole = own.mean(axis=0)
            if len(shape) > 1:
                left, _ = np.linalg.qr(whole @ self._right[number])
                self._right[number] = whole.T @ left
                whole = left @ self._right[number].T
                self._errors[:, piece] = (own - whole).reshape(len(inputs), -1)
            mean[piece] = whole.reshape(-1)
            place = piece.stop
        return mean


def values_of_powersgd(shapes, rank):
    """Values of the allreduces of a step: two factors of each matrix, and the vectors."""
    return sum(sum(_matrix(shape)) * rank_of(shape, rank) if len(shape) > 1 else shape[0]
               for shape in shapes)


def rank_of(shape, rank):
    return min(rank, *_matrix(shape))


def _matrix(shape):
    return shape[0], int(np.prod(shape[1:]))


class TopK:
    """The largest `share` of each rank's values, exactly; the others stay there."""

    def __init__(self, share):
        self._share, self._errors = share, None

    def __call__(self, inputs, step):
        if self._errors is None:
            self._errors = np.zeros_like(inputs)
        inputs = inputs + self._errors
        kept = max(1, int(self._share * inputs.shape[1]))
        sent = np.zeros_like(inputs)
        for row, own in zip(sent, inputs, strict=True):
            places = np.argpartition(np.abs(own), -kept)[-kept:]
            row[places] = own[places]
        self._errors = inputs - sent
        return sent.mean(axis=0)

    @staticmethod
    def values_sent(share, ranks, value_count):
        """Every rank's places and values go to every other rank; an allreduce of v values sends
        2 (n - 1) / n v."""
        return 2 * share * value_count * ranks / 2


