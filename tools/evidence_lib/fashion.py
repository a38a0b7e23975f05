"""Fashion-MNIST for the convolutional network, from Debian's package dataset-fashion-mnist."""

import numpy as np
import torch
from adaptive_study import networks
from demo_lib.data import FASHION_MNIST, idx_pair
from torch.nn import functional


def _tensors(part, rows):
    """Images and labels of "train" or "t10k" as the network takes them."""
    if not FASHION_MNIST.is_dir():
        raise SystemExit(f"evidence: {FASHION_MNIST} is not there (Debian: dataset-fashion-mnist); "
                         "install it, or leave fashion out by --domains")
    images, labels = idx_pair(part)
    images = images[rows].reshape(-1, 1, 28, 28).astype(np.float32) / 255
    return torch.from_numpy(images), torch.from_numpy(labels[rows].astype(np.int64))


def fashion_task():
    images, labels = _tensors("train", slice(None))

    def batch_of(random, count):
        chosen = random.integers(len(labels), size=count)
        return images[chosen], labels[chosen]

    def loss_of(network, x, y):
        return functional.cross_entropy(network(x), y)

    return networks.Task("fashion", networks.ImageModel, batch_of, loss_of, None, 8, 0,
                         networks.digest(labels.numpy()))


def held_out(count):
    """The first test images."""
    return _tensors("t10k", slice(count))
