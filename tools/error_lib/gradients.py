"""Gradients of the demo's networks, rank by rank, at several steps of their training.

The network is trained once, with the exact mean of 4 ranks as tools/demo does it; a seed chooses
the images that the ranks see at the step where the training is stopped.
"""

import math
from dataclasses import dataclass

import numpy as np

from demo_lib.data import prepare
from demo_lib.network import Network
from demo_lib.optimizers import Sgd
from demo_lib.training import CLASS_COUNT

TRAINING_RANK_COUNT = 4
STEP_SHARES = (0, 0.1, 1)  # of a training: before it, while the loss falls, at its end


@dataclass(frozen=True)
class Checkpoint:
    """A network in the middle of its training; small enough to pickle."""

    task: object
    step: int
    weights: np.ndarray
    rank_count_max = math.inf

    def rank_gradients(self, rank_count, seed):
        """(ranks, weights) float32: each rank's gradient of a batch of its own."""
        images, labels = self.task.load("train")
        network = _network(self.task, images)
        random = np.random.default_rng([seed, self.step])
        x = np.empty((rank_count, network.weight_count), np.float32)
        for row in x:
            batch = random.integers(len(labels), size=self.task.images_per_rank)
            network.loss_and_gradient(self.weights, self.task.scaled(images[batch]), labels[batch],
                                      row)
        return x


def tasks(directory):
    """{name: task} of the data sets found on this machine, written to `directory`."""
    return {task.name: task for task in prepare(directory)}


def checkpoints(task):
    """{name: Checkpoint} at the steps of STEP_SHARES."""
    images, labels = task.load("train")
    network, random = _network(task, images), np.random.default_rng(0)
    weights = network.initial_weights(0)
    optimizer, gradient = Sgd(weights, task.learning_rates["sgd"]), np.empty_like(weights)
    steps = [round(share * task.step_count) for share in STEP_SHARES]
    found = {}
    for step in range(max(steps) + 1):
        if step in steps:
            found[f"{task.name} step {step}"] = Checkpoint(task, step, weights.copy())
        # Batches of equal size: their common mean is the mean of the ranks' gradients.
        batch = random.integers(len(labels), size=TRAINING_RANK_COUNT * task.images_per_rank)
        network.loss_and_gradient(weights, task.scaled(images[batch]), labels[batch], gradient)
        optimizer.apply(weights, gradient)
    return found


def _network(task, images):
    return Network(images.shape[1], task.hidden_count, CLASS_COUNT)
