"""The four small networks whose gradients are recorded, each with its data and its training.

A language model on characters, once with PyTorch's first weights and once as GPT-2 begins, a
convolutional network on images and a click model whose weights
are mostly embeddings. Needs PyTorch and scikit-learn; no file is downloaded.
"""

import hashlib
import math
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional

TRAINING_RANK_COUNT = 4  # a step's batch is that of so many ranks
_CORPUS_SIZE_BYTES = 4_000_000
_LEAST_CHARACTER, _CHARACTER_COUNT = 31, 96  # 31 stands for a new line
_CONTEXT = 64
_FIELD_SIZES = (4000, 2000, 2000, 1000, 1000, 500, 500, 200, 100, 50)
_EMBEDDING_WIDTH = 16


@dataclass(frozen=True)
class Task:
    """A network, its data and its training."""

    name: str
    build: Callable  # () -> nn.Module
    batch_of: Callable  # (random, count) -> arguments of loss_of after the network
    loss_of: Callable  # (network, *batch) -> loss
    optimizer_of: Callable  # (parameters) -> optimizer
    batch_size_per_rank: int
    step_count: int
    data_digest: str  # of what the batches are drawn from


class LanguageModel(nn.Module):
    """A causal transformer, normalised before each part.

    is_gpt: first weights of standard deviation 0.02, less where they add to the residual, biases of
    zero, and one matrix for the characters at both ends; else PyTorch's own and two matrices.
    """

    def __init__(self, width=96, layer_count=4, head_count=4, is_gpt=False):
        super().__init__()
        self.tokens = nn.Embedding(_CHARACTER_COUNT, width)
        self.places = nn.Parameter(0.02 * torch.randn(_CONTEXT, width))
        layer = nn.TransformerEncoderLayer(width, head_count, 4 * width, dropout=0.0,
                                           activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layer_count, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, _CHARACTER_COUNT, bias=False)
        if is_gpt:
            for name, weight in self.named_parameters():
                if weight.dim() == 2:
                    adds = name.endswith(("out_proj.weight", "linear2.weight"))
                    nn.init.normal_(weight, std=0.02 / (2 * layer_count)**(0.5 * adds))
                elif name.endswith("bias"):
                    nn.init.zeros_(weight)
            self.out.weight = self.tokens.weight

    def forward(self, characters):
        count = characters.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(count)
        x = self.tokens(characters) + self.places[:count]
        return self.out(self.norm(self.layers(x, mask=mask, is_causal=True)))


class ImageModel(nn.Module):
    """Convolutions with batch norms, a mean over places and a linear layer."""

    def __init__(self, channels=(1, 32, 64, 128, 128)):
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in zip(channels, channels[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in channels[1:])
        self.out = nn.Linear(channels[-1], 10)

    def forward(self, x):
        for number, (convolution, norm) in enumerate(zip(self.convolutions, self.norms)):
            x = functional.relu(norm(convolution(x)))
            if number == 1:
                x = functional.max_pool2d(x, 2)
        return self.out(x.mean(dim=(2, 3)))


class ClickModel(nn.Module):
    """An embedding for each field, their pairwise products and a perceptron on all of them."""

    def __init__(self):
        super().__init__()
        self.fields = nn.ModuleList(nn.Embedding(size, _EMBEDDING_WIDTH) for size in _FIELD_SIZES)
        for field in self.fields:
            nn.init.normal_(field.weight, std=0.05)
        self.hidden = nn.Linear(len(_FIELD_SIZES) * _EMBEDDING_WIDTH, 64)
        self.out = nn.Linear(64, 1)

    def forward(self, ids):
        rows = torch.stack([field(ids[:, k]) for k, field in enumerate(self.fields)], dim=1)
        pairs = (rows.sum(1).square() - rows.square().sum(1)).sum(1) / 2
        return pairs + self.out(functional.relu(self.hidden(rows.flatten(1))))[:, 0]


def corpus():
    """The modules at the top of Python's standard library as numbers of characters, in order."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)
    text = np.frombuffer(text[:_CORPUS_SIZE_BYTES].encode("ascii", "replace"), np.uint8)
    text = text[(text >= 32) & (text < 127) | (text == 10)]
    return np.where(text == 10, _LEAST_CHARACTER, text).astype(np.int64) - _LEAST_CHARACTER


def language_task(step_count=400, rows_per_rank=8, is_gpt=False):
    characters = corpus()

    def batch_of(random, count):
        starts = random.integers(len(characters) - _CONTEXT, size=count)
        rows = torch.from_numpy(characters[starts[:, None] + np.arange(_CONTEXT + 1)])
        return rows[:, :-1], rows[:, 1:]

    def loss_of(network, x, y):
        return functional.cross_entropy(network(x).flatten(0, 1), y.flatten())

    return Task("gpt" if is_gpt else "lm", lambda: LanguageModel(is_gpt=is_gpt), batch_of, loss_of,
                lambda parameters: torch.optim.AdamW(parameters, 2e-3, weight_decay=0.01),
                rows_per_rank, step_count, digest(characters))


def image_task(step_count=400):
    """scikit-learn's digits, each at a random place of 12 x 12 pixels, with noise."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = digits.images.astype(np.float32) / 16
    labels = digits.target.astype(np.int64)

    def batch_of(random, count):
        chosen = random.integers(len(labels), size=count)
        places = random.integers(5, size=(count, 2))
        x = 0.2 * random.standard_normal((count, 1, 12, 12), np.float32)
        for row, (image, (top, left)) in enumerate(zip(chosen, places)):
            x[row, 0, top:top + 8, left:left + 8] += images[image]
        return torch.from_numpy(x), torch.from_numpy(labels[chosen])

    def loss_of(network, x, y):
        return functional.cross_entropy(network(x), y)

    return Task("cnn", ImageModel, batch_of, loss_of,
                lambda parameters: torch.optim.SGD(parameters, 0.05, momentum=0.9,
                                                   weight_decay=5e-4),
                16, step_count, digest(images))


def click_task(step_count=1000):
    """Clicks by a known law: ids of Zipf's law in a random order, weights of ids and products of
    hidden vectors."""
    law = np.random.default_rng(7)
    weights = [0.5 * law.standard_normal(size) for size in _FIELD_SIZES]
    vectors = [0.4 * law.standard_normal((size, 4)) for size in _FIELD_SIZES]
    shares = [1 / (np.arange(size) + 3) for size in _FIELD_SIZES]
    orders = [law.permutation(size) for size in _FIELD_SIZES]
    limits = [np.cumsum(share) / share.sum() for share in shares]

    def batch_of(random, count):
        ranks = [np.minimum(np.searchsorted(limit, random.random(count)), len(limit) - 1)
                 for limit in limits]
        ids = np.stack([order[rank] for order, rank in zip(orders, ranks)], axis=1)
        rows = np.stack([vectors[k][ids[:, k]] for k in range(len(limits))], axis=1)
        score = sum(weights[k][ids[:, k]] for k in range(len(limits))) - 1
        score += ((rows.sum(1)**2).sum(-1) - (rows**2).sum((1, 2))) / 2
        clicked = random.random(count) < 1 / (1 + np.exp(-score))
        return torch.from_numpy(ids), torch.from_numpy(clicked.astype(np.float32))

    def loss_of(network, ids, clicked):
        return functional.binary_cross_entropy_with_logits(network(ids), clicked)

    return Task("clicks", ClickModel, batch_of, loss_of,
                lambda parameters: torch.optim.Adam(parameters, 2e-3), 256, step_count,
                digest(np.concatenate(weights)))


def gpt_task(step_count=400):
    return language_task(step_count, is_gpt=True)


TASKS = {"lm": language_task, "gpt": gpt_task, "cnn": image_task, "clicks": click_task}


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def begin(task):
    """(network, its optimizer), the same in every process."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    network = task.build()
    count = sum(math.prod(parameter.shape) for parameter in network.parameters())
    assert count <= 500_000, count
    return network, task.optimizer_of(network.parameters())


def gradients(task, network, batch):
    """({name of parameter: float32 gradient, flat}, loss) of one rank's batch."""
    network.zero_grad(set_to_none=True)
    loss = task.loss_of(network, *batch)
    loss.backward()
    return {name: parameter.grad.detach().numpy().reshape(-1)
            for name, parameter in network.named_parameters()}, float(loss.detach())
