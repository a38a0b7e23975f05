"""Every way to average gradients that is compared, for ranks that are simulated in one process.

A contender is made anew for each training: make(shapes, seed) -> mean(inputs (ranks, values), step)
-> (values). Rivals are those of tools/error_lib/peers.py and tools/adaptive_study/rivals.py, each
for the whole gradient at once, and the ones with a memory, in stateful.py.
"""

from dataclasses import dataclass
from typing import Callable

import gqsgd
import numpy as np
import torch
from adaptive_study.codecs import draws_of
from adaptive_study.data import Data
from adaptive_study.rivals import DynamiqLike
from diloco_lib import fp8
from error_lib.peers import PEERS
from gqsgd.torch.budget import Budget, spending_of
from gqsgd.torch.policy import SMALL_VALUE_COUNT

from .stateful import PowerSgd, TopK, values_of_powersgd

FLOAT32, FP16 = "float32", "fp16 hook"
OURS, RIVAL, CONTROL = "ours", "rival", "control"


@dataclass(frozen=True)
class Contender:
    """values_sent: (ranks, shapes) -> as many float32 values have its bytes in an allreduce. None
    for presets, which the cost model knows, by their names or as `timed_as`."""

    name: str
    kind: str
    make: Callable
    values_sent: Callable | None = None
    timed_as: str = ""


def _preset(name, kind=OURS):
    def make(shapes, seed):
        q = gqsgd.Quantizer(name, seed=seed)
        return lambda inputs, step: gqsgd.simulate(list(inputs), q, schedule="direct", step=step)

    return Contender(name, kind, make)


def _budget(bits, quantizer=""):
    """As HookState(quantizer, budget=bits) divides it, with a call for each parameter that is
    quantized."""
    preset = quantizer or f"adaptive-{bits}"

    def make(shapes, seed):
        counts = [int(np.prod(shape)) for shape in shapes]
        ends = np.cumsum(counts)
        q = gqsgd.Quantizer(preset, seed=seed)
        budget = Budget(bits, spending_of(q))

        def mean(inputs, step):
            budget.begin(step)
            found = inputs.mean(axis=0)
            for number in reversed(range(len(shapes))):  # as gradients are ready
                if len(shapes[number]) < 2 or counts[number] < SMALL_VALUE_COUNT:
                    continue
                part = slice(ends[number] - counts[number], ends[number])
                own = budget.quantizer_for(q, {number: counts[number]})
                found[part] = gqsgd.simulate([row[part] for row in inputs], own, schedule="direct",
                                             step=step, index=number)
                budget.measure(number, torch.from_numpy(found[part]))
            return found

        return mean

    given = f"{quantizer}, " if quantizer else ""
    return Contender(f"HookState({given}budget={bits})", OURS, make, timed_as=preset)


def _floats(name, dtype, bytes_per_value):
    """As a hook of PyTorch does it: divided, cast, added in that type."""

    def mean(inputs, step):
        rows = torch.from_numpy(inputs) / len(inputs)
        total = rows[0].to(dtype)
        for row in rows[1:]:
            total = total + row.to(dtype)
        return total.float().numpy()

    return Contender(name, RIVAL, lambda shapes, seed: mean,
                     lambda ranks, shapes: _count(shapes) * bytes_per_value / 4)


def _peer(name, title):
    (peer,) = [one for one in PEERS if one.name == name]

    def make(shapes, seed):
        return lambda inputs, step: peer.run(inputs, np.random.default_rng([5, seed, step]))

    def values_sent(ranks, shapes):
        per_value = peer.bytes_per_value(ranks, _count(shapes))
        return _count(shapes) * per_value * ranks / (ranks - 1) / 8

    return Contender(title, RIVAL, make, values_sent)


def _dynamiq(shapes, seed):
    def mean(inputs, step):
        data = Data("training", inputs, (0, inputs.shape[1]), (inputs.shape[1],))
        return DynamiqLike(5).run(data, draws_of(data, seed * 100_000 + step)).mean

    return mean


def _fp8(shapes, seed):
    def mean(inputs, step):
        rows = [_matrices(row, shapes) for row in inputs]
        sums = fp8.simulated(rows)
        return torch.cat([one.reshape(-1) for one in sums]).numpy() / len(inputs)

    return mean


def _fp8_values(ranks, shapes):
    tensors = _matrices(np.zeros(_count(shapes), np.float32), shapes)
    return fp8.packed(tensors, ranks).numel() / 4


def _matrices(flat, shapes):
    """Tensors of at most two dimensions, as torchft's fp8 takes them."""
    found, place = [], 0
    for shape in shapes:
        count = int(np.prod(shape))
        tensor = torch.from_numpy(flat[place:place + count].copy())
        found.append(tensor.view(shape[0], -1) if len(shape) > 1 else tensor)
        place += count
    return found


def _nearest_per_tensor(name, kind, top, bits):
    """Codes -top..top, to nearest by the largest value of each tensor and rank: biased."""

    def rounded(tensor):
        unit = tensor.abs().max() / top
        return ((tensor / unit).round().nan_to_num() * unit).reshape(-1)

    def make(shapes, seed):
        def mean(inputs, step):
            rows = [torch.cat([rounded(tensor) for tensor in _matrices(row, shapes)])
                    for row in inputs]
            return torch.stack(rows).mean(dim=0).numpy()

        return mean

    return Contender(name, kind, make, lambda ranks, shapes: _count(shapes) * bits / 32)


def _count(shapes):
    return sum(int(np.prod(shape)) for shape in shapes)


ALL = tuple([
    _floats(FLOAT32, torch.float32, 4), _floats(FP16, torch.float16, 2),
    _floats("bf16 hook", torch.bfloat16, 2),
    *(_preset(name) for name in ("blocks-8", "rotated-8", "rotated-4-8", "rotated-4", "relative-8",
                                 "adaptive-6", "adaptive-5", "adaptive-4", "adaptive-3",
                                 "rice-6", "rice-5", "rice-4", "rice-3", "paper-gl8",
                                 "paper-ge8", "paper-ge4", "bf16", "fp16")),
    _budget(4), _budget(4, "rice-4"),
    Contender("PowerSGD rank 1", RIVAL, lambda shapes, seed: PowerSgd(shapes, 1, seed),
              lambda ranks, shapes: values_of_powersgd(shapes, 1)),
    Contender("PowerSGD rank 4", RIVAL, lambda shapes, seed: PowerSgd(shapes, 4, seed),
              lambda ranks, shapes: values_of_powersgd(shapes, 4)),
    Contender("fp8 of torchft, emulated", RIVAL, _fp8, _fp8_values),
    _peer("int8 two-shot, scale per 128, nearest", "int8 per 128, nearest"),
    _peer("int8 two-shot, scale per 128, random", "int8 per 128, random"),
    _peer("int4 two-shot, scale per 128, nearest", "int4 per 128, nearest"),
    _peer("int4 two-shot, scale per 128, random", "int4 per 128, random"),
    _peer("QSGD 8 bits, scale per rank, allgather", "QSGD 8 bits"),
    _peer("natural compression, 9 bits two-shot", "natural compression"),
    _peer("uniform THC 4 bits", "THC-like 4 bits"),
    Contender("DynamiQ-like 5 bits", RIVAL, _dynamiq,
              lambda ranks, shapes: _count(shapes) * 5 / 32),
    Contender("TopK 1 % with error feedback", RIVAL, lambda shapes, seed: TopK(0.01),
              lambda ranks, shapes: TopK.values_sent(0.01, ranks, _count(shapes))),
    _nearest_per_tensor("int4 per tensor, nearest", RIVAL, 7, 4),
    _preset("paper-gl4", CONTROL),
    _nearest_per_tensor("2 bits per tensor, nearest", CONTROL, 1, 2),
])
BY_NAME = {contender.name: contender for contender in ALL}


def hook_of(name):
    """What tools/torch_lib/hooks.py calls it between hosts."""
    if BY_NAME[name].kind == OURS:
        return f"{name}, network"
    return {FLOAT32: "DDP", FP16: "fp16"}.get(name, name)


def shown(name):
    """In Markdown."""
    return f"`{name}`" if BY_NAME[name].values_sent is None else name


QUICK = (FLOAT32, FP16, "PowerSGD rank 4", "int4 per 128, nearest", "blocks-8", "rotated-4-8",
         "rotated-4", "paper-gl4", "2 bits per tensor, nearest")
