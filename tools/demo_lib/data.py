"""The two data sets: scikit-learn's handwritten digits and, where Debian has it, Fashion-MNIST.

Images are kept as bytes in .npy files, which all ranks map: one copy in memory for all of them.
"""

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")  # Debian package dataset-fashion-mnist


@dataclass(frozen=True)
class Task:
    """One data set with the network and the training that suit it; small enough to pickle."""

    name: str
    directory: Path  # holds train_x.npy, train_y.npy, test_x.npy, test_y.npy
    pixel_max: int
    hidden_count: int
    images_per_rank: int  # in one step
    step_count: int
    learning_rates: dict  # by optimizer

    def load(self, part):
        """Images (count, pixels) as bytes, mapped, and labels (count,), of "train" or "test"."""
        images = np.load(self.directory / f"{part}_x.npy", mmap_mode="r")
        return images, np.load(self.directory / f"{part}_y.npy")

    def scaled(self, images):
        """Pixels as float32 in [0, 1]."""
        return images.astype(np.float32) / np.float32(self.pixel_max)


def prepare(directory):
    """Writes the data sets found on this machine under `directory`; returns their tasks."""
    tasks = [_digits(directory / "digits")]
    if FASHION_MNIST.is_dir():
        tasks.append(_fashion(directory / "fashion"))
    return tasks


def _digits(directory):
    from sklearn.datasets import load_digits  # imported here: the ranks need only NumPy

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images, labels = digits.data[order].astype(np.uint8), digits.target[order]
    _save(directory, train=(images[:1437], labels[:1437]), test=(images[1437:], labels[1437:]))
    return Task("digits", directory, pixel_max=16, hidden_count=64, images_per_rank=16,
                step_count=600, learning_rates={"sgd": 0.05, "adam": 0.002})


def _fashion(directory):
    _save(directory, train=idx_pair("train"), test=idx_pair("t10k"))
    return Task("Fashion-MNIST", directory, pixel_max=255, hidden_count=100, images_per_rank=32,
                step_count=450, learning_rates={"sgd": 0.05, "adam": 0.002})


def idx_pair(prefix):
    """Images and labels of one part; an idx file is a big-endian header, then bytes."""
    images = _idx_bytes(f"{prefix}-images-idx3-ubyte.gz", header_size_bytes=16)
    labels = _idx_bytes(f"{prefix}-labels-idx1-ubyte.gz", header_size_bytes=8)
    return images.reshape(len(labels), -1), labels


def _idx_bytes(name, header_size_bytes):
    with gzip.open(FASHION_MNIST / name) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header_size_bytes)


def _save(directory, **parts):
    directory.mkdir(parents=True, exist_ok=True)
    for part, (images, labels) in parts.items():
        np.save(directory / f"{part}_x.npy", images)
        np.save(directory / f"{part}_y.npy", labels.astype(np.int64))
