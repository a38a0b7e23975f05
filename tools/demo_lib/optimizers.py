"""What a mean gradient does to the weights: SGD with momentum, and Adam."""

import numpy as np


class Sgd:
    """Momentum 0.9, no weight decay."""

    MOMENTUM = 0.9

    def __init__(self, weights, rate):
        self.rate = rate
        self.velocity = np.zeros_like(weights)

    def apply(self, weights, gradient):
        """One step, in place."""
        self.velocity *= self.MOMENTUM
        self.velocity += gradient
        weights -= self.rate * self.velocity


class Adam:
    """Kingma and Ba's, with their constants and corrections for the first steps."""

    BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8

    def __init__(self, weights, rate):
        self.rate = rate
        self.step = 0
        self.first = np.zeros_like(weights)
        self.second = np.zeros_like(weights)

    def apply(self, weights, gradient):
        """One step, in place. A coordinate whose gradients have all been zero does not move."""
        self.step += 1
        self.first += np.float32(1 - self.BETA_1) * (gradient - self.first)
        self.second += np.float32(1 - self.BETA_2) * (gradient * gradient - self.second)
        rate = self.rate * np.sqrt(1 - self.BETA_2**self.step) / (1 - self.BETA_1**self.step)
        weights -= np.float32(rate) * self.first / (np.sqrt(self.second) + np.float32(self.EPSILON))


OPTIMIZERS = {"sgd": Sgd, "adam": Adam}
