#!/usr/bin/env python3
"""Trainings with adaptive widths and Rice codes beside float32: pairs of one seed, two optimizers,
three networks.

    python3 tools/adaptive_study/trainings.py --build B --refresh-docs

Six seconds of one core for a training; what build/adaptive/trainings.json has is not run again.
The networks and data are those of tools/evidence, the ranks four in one process. A row is the loss
on held-out data after 160 steps, less that of float32 from the same first weights by the same
batches. Writes the table of docs/results/adaptive.md between the marks that name this file.
"""

import argparse
import math
import os
import statistics
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT / folder) for folder in ("tools", "bindings/python", "reference")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

FLOAT32, CONTROL = "float32", "paper-gl4"
CONTENDERS = (FLOAT32, "rice-4", "adaptive-4", "HookState(budget=4)", CONTROL, "rice-3", "rice-5",
              "adaptive-5", "adaptive-3", "HookState(rice-4, budget=4)")
# Last those with the optimizers of tools/evidence, whose page has steps to a quality.
RATES = {("lm", "SGD"): 0.1, ("cnn", "AdamW"): 3e-3, ("clicks", "SGD"): 1.0,
         ("lm", "AdamW"): 3e-3, ("cnn", "SGD"): 0.03, ("clicks", "AdamW"): 4e-3}
RANK_COUNT, STEP_COUNT = 4, 160
LAST, EVERY = 5, 4  # so many losses, so many steps apart, are averaged: single ones jump


def optimizer_of(name, rate):
    import torch

    if name == "SGD":
        return lambda parameters: torch.optim.SGD(parameters, rate, momentum=0.9)
    return lambda parameters: torch.optim.AdamW(parameters, rate, weight_decay=0.01)


def last_loss(network, optimizer, contender, seed, step_count=STEP_COUNT):
    """On held-out data at the end of a training; infinite where it is not a number."""
    from evidence_lib.contenders import BY_NAME
    from evidence_lib.domains import DOMAINS, Training

    domain = DOMAINS[network]
    domain = replace(domain, optimizer_of=optimizer_of(optimizer, RATES[network, optimizer]))
    training = Training(domain, seed)
    mean_of = BY_NAME[contender].make(training.shapes, seed)
    losses = []
    for step in range(1, step_count + 1):
        training.apply(mean_of(training.gradients(RANK_COUNT), step))
        left = step_count - step
        if left % EVERY == 0 and left < LAST * EVERY:
            losses.append(training.quality())
    loss = statistics.mean(losses)
    return loss if math.isfinite(loss) else math.inf


def runs_of(seeds):
    """{key: function}: all seeds of what matters most come first."""
    columns = list(RATES)
    return {f"{network}/{optimizer}/{contender}/{seed}":
            partial(last_loss, network, optimizer, contender, seed)
            for contenders in (CONTENDERS[:5], CONTENDERS[5:])
            for some in (columns[:3], columns[3:]) for seed in range(seeds)
            for contender in contenders for network, optimizer in some}


def differences(results, network, optimizer, contender):
    """Losses less those of float32, one for each seed that both have."""
    found = []
    for seed in range(100):
        keys = [f"{network}/{optimizer}/{name}/{seed}" for name in (FLOAT32, contender)]
        if all(key in results for key in keys):
            found.append(results[keys[1]] - results[keys[0]])
    return found


def cell(found):
    """Mean and standard error, with the number of seeds."""
    if len(found) < 2:
        return "-"
    error = statistics.stdev(found) / math.sqrt(len(found)) if max(found) < math.inf else math.inf
    return f"{statistics.mean(found):+.4f} +- {error:.4f} ({len(found)})"


def table(results):
    columns = list(RATES)
    lines = ["| | " + " | ".join(f"{network}, {name}" for network, name in columns) + " |",
             "|---" * (len(columns) + 1) + "|"]
    base = []
    for network, optimizer in columns:
        own = [loss for key, loss in results.items()
               if key.startswith(f"{network}/{optimizer}/{FLOAT32}/")]
        spread = f" +- {statistics.stdev(own):.4f}" if len(own) > 1 else ""
        base.append(f"{statistics.mean(own):.4f}{spread}" if own else "-")
    lines.append(f"| {FLOAT32}: loss, spread of seeds | " + " | ".join(base) + " |")
    for contender in CONTENDERS[1:]:
        cells = [cell(differences(results, *column, contender)) for column in columns]
        lines.append(f"| `{contender}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/adaptive/trainings.json"))
    parser.add_argument("--no-runs", action="store_true", help="the table of what --out has")
    parser.add_argument("--refresh-docs", action="store_true")
    arguments = parser.parse_args()
    os.environ.setdefault("GQSGD_LIBRARY", str((arguments.build / "libgqsgd.so").resolve()))
    from adaptive_study.page import write_table
    from study_lib.run_store import RunStore

    rates = {"/".join(key): rate for key, rate in RATES.items()}
    store = RunStore(arguments.out, {"rates": rates, "steps": STEP_COUNT, "ranks": RANK_COUNT})
    if not arguments.no_runs:
        store.fill(runs_of(arguments.seeds))
    text = table(store.results)
    print(text)
    if arguments.refresh_docs:
        write_table("trainings.py", text)


if __name__ == "__main__":
    main()
