"""What a HookState reports of itself: bytes, waiting time and the measured error of a sample."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

import gqsgd

from .lanes import Call, Lane
from .policy import is_quantized

SAMPLE_VALUE_COUNT = 65536
SAMPLE_INTERVAL = 16  # steps: a copy of 256 KiB in every step would be seen in small models
SLICE_VALUE_COUNT = 1024  # one rotation, and whole blocks of 128


class Sample:
    """Gradients of this rank before they were averaged: slices that lie evenly in the longest call
    that goes in codes, of every 16th step and the first. All ranks choose the same. One tensor
    alone would say nothing of the others: the first rows of an embedding may have no gradient."""

    def __init__(self) -> None:
        self.step = -1  #: that `values` are of; below 0 before the first
        self.values = torch.empty(0)
        self.quantizer: gqsgd.Quantizer | None = None
        self.call_values = 0  #: values of the call that they are from

    def take(self, step: int, calls: Sequence[Call]) -> None:
        """Looks through calls of a step, before they run."""
        if self.step >= 0 and step % SAMPLE_INTERVAL != 0 and step != self.step:
            return
        if step != self.step:
            self.step, self.call_values, self.quantizer = step, 0, None
        for call in calls:
            if is_quantized(call["q"]):
                count = sum(map(torch.Tensor.numel, call["arrays"]))
                if count > self.call_values:
                    self.call_values, self.quantizer = count, call["q"]
                    self.values = torch.cat(_slices(call["arrays"], count))


def _slices(arrays: Sequence[torch.Tensor], count: int) -> list[torch.Tensor]:
    """All `count` values, or slices of SAMPLE_VALUE_COUNT of them: one at each multiple of a
    stride, moved to the left where it would cross the end of its tensor."""
    if count <= SAMPLE_VALUE_COUNT:
        return list(arrays)
    stride = math.ceil(count / (SAMPLE_VALUE_COUNT // SLICE_VALUE_COUNT))
    slices: list[torch.Tensor] = []
    begin = 0
    for array in arrays:
        for place in range(-begin % stride, array.numel(), stride):
            first = max(0, min(place, array.numel() - SLICE_VALUE_COUNT))
            slices.append(array[first : first + SLICE_VALUE_COUNT])
        begin += array.numel()
    return slices


def measured(sample: Sample, lane: Lane | None, schedule: str) -> str:
    """The error of the sample, which all ranks measure together."""
    if lane is not None and not lane.on_host:
        raise gqsgd.Unsupported(
            "errors are measured on values in host memory, and these gradients are on a GPU; hint: "
            "gqsgd.expected_error(q, arrays) with gradients of all ranks"
        )
    if lane is None or sample.quantizer is None:
        return "not measured: no gradient went in codes so far"
    error = lane.comm.measured_error(sample.values, sample.quantizer, schedule)
    return (
        f"{error:.2g} = ||G - mean||^2 / ||mean||^2, measured on {sample.values.numel()} of "
        f"{sample.call_values} gradients of the longest call of step {sample.step}"
    )


def counted(comm: gqsgd.Communicator, stats: gqsgd.Stats, call_ns: int) -> dict[str, str]:
    """What a communicator has counted, in `call_ns` nanoseconds of calls."""
    lines = {
        "ranks": f"rank {comm.rank} of {comm.size}, transport {comm.transport}",
        "sent": _sent(stats),
        "waiting": _waiting(stats["wait_ns"], call_ns),
    }
    if block_count := stats["nonfinite_blocks"]:
        lines["nonfinite"] = (
            f"{block_count} blocks held NaN or infinity; hint: a quantizer with nonfinite=error "
            "raises Nonfinite instead"
        )
    return lines


def schedule_line(schedule: str, lane: Lane, has_costs: bool) -> str:
    """Which schedule calls have, as far as it is the same for all."""
    if schedule != "auto":
        return schedule
    if has_costs and (lane.on_host or lane.comm.transport == "nccl" and lane.comm.costs):
        return "auto: with costs the fastest for each size; gqsgd.log_to_logging() shows which"
    return "auto: direct"


def _sent(stats: gqsgd.Stats) -> str:
    if math.isnan(stats.ratio):
        return "nothing"
    sent, plain = stats["payload_bytes_sent"], stats["uncompressed_bytes_sent"]
    places = f"{sent / 1e6:.4g} MB in place of {plain / 1e6:.4g} MB of float32"
    return f"{places}: ratio {stats.ratio:.2f}"


def _waiting(wait_ns: int, call_ns: int) -> str:
    if call_ns == 0:
        return "not known: calls run on a stream, or none has run"
    return f"{wait_ns / call_ns:.0%} of {call_ns / 1e9:.3g} s in calls, for other ranks"
