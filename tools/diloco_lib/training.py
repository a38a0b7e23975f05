"""The training of all tables: a language model on characters, AdamW inside a site, and sites that
are virtual, in one process."""

import numpy as np
import torch
from adaptive_study import networks
from diloco import OuterStep  # examples/python

from .contenders import simulated

ROWS = 4  # of 64 characters, in a step of a site
VALIDATION_ROWS = 256


def network_of(seed, width, layers):
    """The same first weights on all sites."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    return networks.LanguageModel(width=width, layer_count=layers)


class Site:
    """A replica, its batches and its inner optimizer."""

    def __init__(self, task, number, seed, width, layers):
        self.network = network_of(seed, width, layers)
        self.parameters = list(self.network.parameters())
        self.optimizer = torch.optim.AdamW(self.parameters, 2e-3, weight_decay=0.01)
        self._task, self._random = task, np.random.default_rng([8, seed, number])

    def inner_steps(self, count):
        for _ in range(count):
            self.gradient_step()
            self.optimizer.step()

    def gradient_step(self):
        """The gradient of the next batch, without the step of the optimizer."""
        networks.gradients(self._task, self.network, self._task.batch_of(self._random, ROWS))

    def loss(self):
        """On text that is the same for all."""
        held_out = self._task.batch_of(np.random.default_rng(6), VALIDATION_ROWS)
        with torch.no_grad():
            return float(self._task.loss_of(self.network, *held_out))


def simulated_training(name, seed, setting):
    """{"loss": at the end} of virtual sites."""
    task = networks.language_task()
    sites = [Site(task, k, seed, setting["width"], setting["layers"])
             for k in range(setting["sites"])]
    shapes = [p.shape for p in sites[0].parameters]
    mean = torch.zeros(sum(shape.numel() for shape in shapes))
    outers = [OuterStep(site.parameters, lambda delta: delta.copy_(mean)) for site in sites]
    for step in range(setting["outer_steps"]):
        for site in sites:
            site.inner_steps(setting["inner_steps"])
        deltas = [outer.change() for outer in outers]
        mean.copy_(simulated(name, deltas, shapes, step, seed))
        for outer in outers:
            outer.step()
    return {"loss": sites[0].loss()}
