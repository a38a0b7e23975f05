#!/usr/bin/env python3
"""Records gradients of 16 ranks at four times of four trainings: the project's own yardstick.

    python3 tools/adaptive_study/record.py --out build/recorded/gradients.npz

Takes three minutes on one core and 34 MB of disk. Needs PyTorch and scikit-learn. With the same
versions of these and of Python (whose library is the text), the same machine gives the same
bytes; the digest that is printed tells. Values are bfloat16, as mixed precision hands them over;
whole runs of 1,024 neighbours are drawn from all tensors at one rate.
"""

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

RANK_COUNT = 16
SHARES = (0.01, 0.1, 0.5, 1.0)  # of a training
VALUE_COUNT = 65536  # per rank and time, about
RUN = 1024  # neighbours that are kept together: 8 blocks of 128, a rotation


def sampled_places(counts, value_count=VALUE_COUNT):
    """{number of a tensor: places of its values that are recorded}, of the tensors' lengths.

    Every tensor of a whole run or more gives runs at equal distances, in proportion to its length
    and at least one; of the shorter tensors every so many is taken whole.
    """
    rate = min(1.0, value_count / sum(counts))
    places, due = {}, 0.5
    for number, count in enumerate(counts):
        run_count = count // RUN
        if rate == 1.0:
            places[number] = np.arange(count)
        elif run_count:
            kept = min(run_count, max(1, round(rate * count / RUN)))
            runs = ((np.arange(kept) + 0.5) * run_count / kept).astype(np.int64)
            places[number] = (runs[:, None] * RUN + np.arange(RUN)).reshape(-1)
        else:
            due += rate
            if due >= 1:
                due -= 1
                places[number] = np.arange(count)
    return places


def to_bfloat16(values):
    """The upper halves of float32 patterns, rounded to nearest even."""
    patterns = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((patterns + (0x7FFF + (patterns >> 16 & 1))) >> 16).astype(np.uint16)


def record(task, value_count):
    """({time of training: (ranks, values) uint16}, description) of one training."""
    from adaptive_study import networks

    network, optimizer = networks.begin(task)
    random = np.random.default_rng([1, 0])
    stops = {max(1, round(share * task.step_count)): share for share in SHARES}
    names = [name for name, _ in network.named_parameters()]
    places = sampled_places([p.numel() for _, p in network.named_parameters()], value_count)
    found, losses = {}, {}
    for step in range(1, task.step_count + 1):
        batch = task.batch_of(random, networks.TRAINING_RANK_COUNT * task.batch_size_per_rank)
        if step in stops:
            found[stops[step]], losses[stops[step]] = _of_ranks(task, network, step, places, names)
        networks.gradients(task, network, batch)
        optimizer.step()
    return found, {
        "tensors": [[names[number], len(kept)] for number, kept in places.items()],
        "weight_count": sum(p.numel() for p in network.parameters()),
        "step_count": task.step_count, "batch_size_per_rank": task.batch_size_per_rank,
        "losses": losses, "data_digest": task.data_digest}


def _of_ranks(task, network, step, places, names):
    from adaptive_study import networks

    rows, losses = [], []
    for rank in range(RANK_COUNT):
        random = np.random.default_rng([2, step, rank])
        found, loss = networks.gradients(task, network,
                                         task.batch_of(random, task.batch_size_per_rank))
        rows.append(np.concatenate([to_bfloat16(found[names[number]][kept])
                                    for number, kept in places.items()]))
        losses.append(loss)
    return np.stack(rows), round(float(np.mean(losses)), 4)


def content_digest(arrays, description):
    """SHA-256 over names, shapes and values, which the file's own packing does not change."""
    state = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name in sorted(arrays):
        state.update(f"{name}{arrays[name].shape}".encode())
        state.update(np.ascontiguousarray(arrays[name]).tobytes())
    return state.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/recorded/gradients.npz"))
    parser.add_argument("--tasks", nargs="+", default=["lm", "gpt", "cnn", "clicks"])
    parser.add_argument("--values", type=int, default=VALUE_COUNT, help="per rank and time, about")
    parser.add_argument("--steps", type=int, help="of each training, to try it out")
    arguments = parser.parse_args()
    from adaptive_study.networks import TASKS

    arrays, description = {}, {}
    for name in arguments.tasks:
        begin = time.process_time()
        task = TASKS[name](**({"step_count": arguments.steps} if arguments.steps else {}))
        found, description[name] = record(task, arguments.values)
        for share, values in found.items():
            arrays[f"{name} {share:.0%}"] = values
        print(f"{name}: {description[name]['weight_count']:,} weights, "
              f"{next(iter(found.values())).shape[1]:,} recorded, losses "
              f"{description[name]['losses']}, {time.process_time() - begin:.0f} s", flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    digest = content_digest(arrays, description)
    np.savez(arguments.out, **arrays, description=np.array(json.dumps(description)),
             digest=np.array(digest))
    print(f"{arguments.out}: {arguments.out.stat().st_size:,} bytes, content {digest}")


if __name__ == "__main__":
    main()
