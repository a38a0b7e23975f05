"""The ways to average outer gradients: over a network, and for virtual sites in this process."""

import gqsgd
import torch
import torch.distributed as dist

from . import fp8

FLOAT32, FLOAT16, FP8 = "float32", "float16", "fp8 of torchft, emulated"
OURS = ("blocks-8", "rotated-4-8", "rotated-4", "rice-4", "rice-3", "paper-ge4", "paper-gl4")
NAMES = (FLOAT32, FLOAT16, FP8, *OURS)
CONTROL = "control: 2 bits, one norm, to nearest"  # biased: its loss is to be seen worse


def simulated(name, deltas, shapes, step, seed):
    """The mean of flat float32 tensors of all sites, as the contender makes it."""
    count = len(deltas)
    if name == FLOAT32:
        return torch.stack(deltas).mean(dim=0)
    if name == FLOAT16:
        total = deltas[0].half()
        for delta in deltas[1:]:
            total += delta.half()
        return total.float() / count
    if name == FP8:
        sums = fp8.simulated([in_shapes(delta, shapes) for delta in deltas])
        return torch.cat([tensor.reshape(-1) for tensor in sums]) / count
    if name == CONTROL:
        return torch.stack([_to_nearest(delta) for delta in deltas]).mean(dim=0)
    q = gqsgd.Quantizer(name, seed=seed)
    return gqsgd.simulate(deltas, q, op="mean", schedule="direct", step=step)


def _to_nearest(values):
    unit = values.abs().max()  # codes -1, 0, 1
    return (values / unit).round() * unit


def in_shapes(flat, shapes):
    """Views of a flat tensor."""
    parts = flat.split([shape.numel() for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


class Live:
    """average(flat tensor) of a contender: over Gloo's default group, or over `comm` for ours."""

    def __init__(self, name, comm, shapes, seed):
        self.name, self.step, self._comm, self._shapes = name, 0, comm, shapes
        self._q = gqsgd.Quantizer(name if name in OURS else "none", seed=seed)

    def average(self, flat):
        """In place; counts the steps, which are those of the random numbers."""
        if self.name in OURS:
            self._comm.allreduce(flat, self._q, op="mean", schedule="direct", out=flat,
                                 step=self.step)
            self.step += 1
            return
        if self.name == FLOAT32:
            dist.all_reduce(flat)
        elif self.name == FLOAT16:
            short = flat.half()
            dist.all_reduce(short)
            flat.copy_(short)
        else:
            assert self.name == FP8, self.name
            fp8.exchanged(in_shapes(flat, self._shapes), self._comm.rank, self._comm.size,
                          dist.all_to_all_single, dist.all_gather_into_tensor)
        flat /= self._comm.size
