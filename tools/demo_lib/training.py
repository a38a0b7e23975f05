"""One rank's training on the mean gradient of all ranks."""

import hashlib
import os
import signal
import time
from dataclasses import dataclass, field

import numpy as np

import gqsgd

from .network import Network
from .optimizers import OPTIMIZERS

CLASS_COUNT = 10
MEASURED_STEPS = 16  # steps per run at which the mean gradient is compared with the exact one
REPORT_EVERY_S = 0.25


@dataclass(frozen=True)
class Run:
    """One training: a task, a preset and a seed. Equal seeds give equal weights and batches."""

    task: object
    method: str
    seed: int
    schedule: str
    optimizer: str = "sgd"
    killed_rank: int | None = None  # this rank kills itself half-way: shows what the others get


    @property
    def title(self):
        """Of the runs that are compared with each other."""
        return f"{self.task.name}, {self.optimizer}"


@dataclass
class Outcome:
    """What one rank saw in one run."""

    weights_digest: str = ""
    losses: list = field(default_factory=list)  # of this rank's own batch, one per step
    bytes_sent_per_step: float = 0.0
    seconds: float = 0.0  # rank 0: without the measuring
    mean_errors: list = field(default_factory=list)  # rank 0: squared, relative
    accuracy: float = 0.0  # rank 0: on the test set


class Trainer:
    """The state of one run on one rank."""

    def __init__(self, comm, run):
        self.comm, self.run, self.task = comm, run, run.task
        self.images, self.labels = self.task.load("train")
        self.network = Network(self.images.shape[1], self.task.hidden_count, CLASS_COUNT)
        self.weights = self.network.initial_weights(run.seed)
        rate = self.task.learning_rates[run.optimizer]
        self.optimizer = OPTIMIZERS[run.optimizer](self.weights, rate)
        self.gradient = np.empty_like(self.weights)
        self.quantizer = gqsgd.Quantizer(run.method, seed=run.seed)
        self.outcome = Outcome()

    def train(self, report):
        """Runs all steps; calls report(step, loss) a few times a second. Returns the Outcome."""
        bytes_before = self.comm.stats()["payload_bytes_sent"]
        measured = set(np.linspace(0, self.task.step_count - 1, MEASURED_STEPS, dtype=int))
        measuring_s, begin, reported = 0.0, time.monotonic(), 0.0
        for step, batch in enumerate(self._batches()):
            loss = self._step(step, batch)
            self.outcome.losses.append(loss)
            if self.comm.rank == 0 and step in measured:
                measuring_s += self._measure_error(batch)
            self.optimizer.apply(self.weights, self.gradient)
            if time.monotonic() - reported > REPORT_EVERY_S:
                reported = time.monotonic()
                report(step, loss)
        self.outcome.seconds = time.monotonic() - begin - measuring_s
        bytes_sent = self.comm.stats()["payload_bytes_sent"] - bytes_before
        self.outcome.bytes_sent_per_step = bytes_sent / self.task.step_count
        self.outcome.weights_digest = hashlib.sha256(self.weights.tobytes()).hexdigest()
        if self.comm.rank == 0:
            images, labels = self.task.load("test")
            self.outcome.accuracy = self.network.accuracy(
                self.weights, self.task.scaled(images), labels)
        return self.outcome

    def _step(self, step, batch):
        """This rank's gradient, then, in place, the mean over all ranks. Returns the loss."""
        if self.run.killed_rank == self.comm.rank and step == self.task.step_count // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        loss = self._gradient_of(batch, self.comm.rank, self.gradient)
        self.comm.allreduce(self.gradient, self.quantizer, op="mean", out=self.gradient,
                            schedule=self.run.schedule, step=step)
        return loss

    def _gradient_of(self, batch, rank, gradient):
        mine = batch[rank * self.task.images_per_rank:(rank + 1) * self.task.images_per_rank]
        images = self.task.scaled(self.images[mine])
        return self.network.loss_and_gradient(self.weights, images, self.labels[mine], gradient)

    def _measure_error(self, batch):
        """Compares the mean gradient with the float64 mean of all ranks' gradients, which this
        rank computes again from their images. Returns the seconds it took."""
        begin = time.monotonic()
        exact = np.zeros(self.gradient.size)
        one = np.empty_like(self.gradient)
        for rank in range(self.comm.size):
            self._gradient_of(batch, rank, one)
            exact += one
        exact /= self.comm.size
        error = np.sum((self.gradient - exact) ** 2) / np.sum(exact ** 2)
        self.outcome.mean_errors.append(float(error))
        return time.monotonic() - begin

    def _batches(self):
        """Indices of all ranks' images, step by step: every epoch a new order, equal on all."""
        random = np.random.default_rng([self.run.seed, 1])
        batch_count = self.comm.size * self.task.images_per_rank
        left = np.empty(0, dtype=int)
        for _ in range(self.task.step_count):
            if len(left) < batch_count:
                left = random.permutation(len(self.labels))
            batch, left = left[:batch_count], left[batch_count:]
            yield batch
