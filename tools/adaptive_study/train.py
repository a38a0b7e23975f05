#!/usr/bin/env python3
"""Trains a small language model with AdamW on quantized means: what an error does to the loss.

    GQSGD_LIBRARY=B/libgqsgd.so python3 tools/adaptive_study/train.py

Four ranks; every scheme has the weights and batches of float32's training of the same seed, and
the table has differences of the validation loss from it. Four minutes on one core. Needs PyTorch.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tools", "bindings/python", "reference")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from adaptive_study import networks  # noqa: E402
from adaptive_study.codecs import Adaptive, draws_of  # noqa: E402
from adaptive_study.data import in_tensors  # noqa: E402
from adaptive_study.rivals import Peer  # noqa: E402
from adaptive_study.rule import Rule  # noqa: E402
from adaptive_study.schemes import NEAREST_7, PROPOSED, RANDOM_7  # noqa: E402

RANK_COUNT, ROWS_PER_RANK, VALIDATION_ROWS = 4, 4, 256


def schemes(mean):
    return {"float32": None, "int4 per 32, nearest": Peer(NEAREST_7),
            "int4 per 32, random": Peer(RANDOM_7), f"fixed-{mean}": Adaptive(mean, scope="none"),
            **{f"adaptive-{mean}, exponent {exponent:g}":
               replace(PROPOSED, mean=mean, rule=Rule(exponent)) for exponent in (0.25, 0.5, 1.0)},
            f"adaptive-{mean}, rotated": replace(PROPOSED, mean=mean, rotate=128,
                                                 subtractive=True)}


def training(scheme, seed, step_count, task):
    """The validation loss after a training, and the mean square error over its steps."""
    torch.manual_seed(seed)
    network = networks.LanguageModel(width=64, layer_count=2)
    optimizer = torch.optim.AdamW(network.parameters(), 3e-3, weight_decay=0.01)
    random = np.random.default_rng([6, seed])
    held_out = task.batch_of(np.random.default_rng(6), VALIDATION_ROWS)
    errors = []
    for step in range(step_count):
        ranks = [networks.gradients(task, network, task.batch_of(random, ROWS_PER_RANK))[0]
                 for _ in range(RANK_COUNT)]
        counts = [len(gradient) for gradient in ranks[0].values()]
        data = in_tensors("training", np.stack([np.concatenate(list(one.values()))
                                                for one in ranks]), counts)
        mean = data.exact
        if scheme:
            mean = scheme.run(data, draws_of(data, seed * 10_000 + step)).mean
            errors.append(float(np.square(mean - data.exact).sum()
                                / np.square(data.exact).sum()))
        for start, count, parameter in zip(data.starts, counts, network.parameters()):
            values = torch.from_numpy(mean[start:start + count].astype(np.float32))
            parameter.grad = values.reshape(parameter.shape)
        optimizer.step()
    with torch.no_grad():
        return float(task.loss_of(network, *held_out)), float(np.mean(errors or [0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--mean", type=int, default=3, help="bits")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "build/adaptive/train.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    task = networks.language_task()
    found = {name: [] for name in schemes(arguments.mean)}
    for seed in range(arguments.seeds):
        for name, scheme in schemes(arguments.mean).items():
            found[name].append(training(scheme, seed, arguments.steps, task))
            print(f"{time.process_time():6.0f} s  seed {seed}, {name}: {found[name][-1]}",
                  file=sys.stderr, flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    base = np.array([loss for loss, _ in found["float32"]])
    print(f"float32: {base.mean():.4f}\n\n| scheme | loss minus float32's | +- | error |\n"
          "|---|---|---|---|")
    for name, runs in found.items():
        if name != "float32":
            apart = np.array([loss for loss, _ in runs]) - base
            off = apart.std(ddof=1) / len(apart)**0.5 if len(apart) > 1 else float("nan")
            print(f"| {name} | {apart.mean():+.4f} | {off:.4f} | "
                  f"{np.mean([error for _, error in runs]):.1e} |")


if __name__ == "__main__":
    main()
