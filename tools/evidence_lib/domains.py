"""The trainings, each to a fixed quality: language models, image models and a click model. Their
data are those of tools/adaptive_study/networks.py and of a Debian package: none is downloaded."""

from dataclasses import dataclass
from typing import Callable

import numpy as np
import torch
from adaptive_study import networks

from . import fashion

_HELD_OUT_SEED = 6


@dataclass(frozen=True)
class Domain:
    """A training with ranks that are simulated in one process.

    quality: the loss on held-out data that is to be reached.
    """

    name: str
    title: str  # network, data and optimizer
    task: Callable  # () -> networks.Task
    build: Callable  # () -> nn.Module
    optimizer_of: Callable  # (parameters) -> optimizer
    rows_per_rank: int
    most_steps: int
    evaluate_every: int
    held_out_rows: int
    quality: float
    counts: bool = True  # in means over domains
    contenders: tuple = ()  # where not all of them run
    most_seeds: int = 100
    held_out: Callable | None = None  # (rows) -> batch; else drawn as training batches are


DOMAINS = {
    domain.name: domain for domain in (
        Domain("lm", "a transformer on characters of Python's standard library, AdamW",
               networks.language_task,
               lambda: networks.LanguageModel(width=48, layer_count=2),
               lambda parameters: torch.optim.AdamW(parameters, 3e-3, weight_decay=0.01),
               2, 160, 5, 64, 2.63),
        Domain("cnn", "a convolutional network on moved, noisy digits, SGD with momentum",
               networks.image_task,
               lambda: networks.ImageModel(channels=(1, 8, 16, 32)),
               lambda parameters: torch.optim.SGD(parameters, 0.05, momentum=0.9),
               8, 160, 5, 256, 1.65),
        Domain("clicks", "embeddings and a perceptron on clicks of a known law, Adam",
               networks.click_task, networks.ClickModel,
               lambda parameters: torch.optim.Adam(parameters, 4e-3),
               128, 140, 5, 4096, 0.597),
        Domain("fashion", "a convolutional network on Fashion-MNIST, SGD with momentum",
               fashion.fashion_task, lambda: networks.ImageModel(channels=(1, 8, 16, 32)),
               lambda parameters: torch.optim.SGD(parameters, 0.05, momentum=0.9),
               8, 200, 5, 1024, 1.1, counts=False, held_out=fashion.held_out),
        Domain("lm-6m", "a transformer of 6.1 million weights on the same characters, AdamW",
               networks.language_task,
               lambda: networks.LanguageModel(width=288, layer_count=6),
               lambda parameters: torch.optim.AdamW(parameters, 1e-3, weight_decay=0.01),
               2, 60, 3, 32, 2.6, counts=False, most_seeds=2,
               contenders=("float32", "fp16 hook", "PowerSGD rank 4", "blocks-8", "adaptive-5",
                           "rotated-4", "adaptive-3", "rice-4", "rice-3")),
    )
}


class Training:
    """A network and its batches; the same for all contenders of a seed."""

    def __init__(self, domain, seed):
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(seed)
        self.domain, self.task = domain, domain.task()
        self.network = domain.build()
        self.optimizer = domain.optimizer_of(self.network.parameters())
        self.shapes = [tuple(p.shape) for p in self.network.parameters()]
        self._random = np.random.default_rng([9, seed])
        self._held_out = (
            domain.held_out(domain.held_out_rows) if domain.held_out else
            self.task.batch_of(np.random.default_rng(_HELD_OUT_SEED), domain.held_out_rows))

    def batches(self, rank_count):
        """The next ones, one per rank."""
        return [self.task.batch_of(self._random, self.domain.rows_per_rank)
                for _ in range(rank_count)]

    def gradients(self, rank_count):
        """(ranks, values) float32 of the next batches, one per rank."""
        rows = []
        for batch in self.batches(rank_count):
            found, _ = networks.gradients(self.task, self.network, batch)
            rows.append(np.concatenate(list(found.values())))
        return np.stack(rows)

    def apply(self, mean):
        """One step of the optimizer by a mean gradient (values)."""
        place = 0
        for parameter in self.network.parameters():
            count = parameter.numel()
            values = torch.from_numpy(np.ascontiguousarray(mean[place:place + count], np.float32))
            parameter.grad = values.view_as(parameter)
            place += count
        self.optimizer.step()

    def quality(self):
        """The loss on held-out data."""
        self.network.eval()
        with torch.no_grad():
            loss = float(self.task.loss_of(self.network, *self._held_out))
        self.network.train()
        return loss
