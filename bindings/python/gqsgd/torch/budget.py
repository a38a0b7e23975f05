"""Budget: the mean_bits of each call of adaptive widths or Rice codes, so that calls of a step keep
an average.

Ranks must never disagree about it. So it follows from results of earlier steps, which all ranks
have bit for bit, by maxima and integers alone: sums of floats would depend on the processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gqsgd import InvalidArgument, Quantizer
from gqsgd.presets import short_spec

from . import devices
from .policy import as_quantizer, fields_of, has_mean_bits

LEAST_BITS, MOST_BITS = 2.5, 8  # of mean_bits
INTERVAL = 16  # steps: gradients of layers change slowly beside each other

BLOCK = 128  # values whose largest is the norm that bits follow
# docs/FORMAT.md, section 16: a block has width w or more where its norm's code is the threshold and
# o_w, or more; 3 to 8.
_OFFSETS = (0, 421, 742, 1028, 1298, 1561)
# About what Rice codes take of a value, in sixteenths of a bit, where a block's norm is so many
# octaves from the step: of normal values, and within a tenth of gradients of dense layers.
_OCTAVE = 128  # codes of norms
_FIRST_OCTAVE = -7
_RICE_SIXTEENTHS = np.array([3, 4, 6, 9, 13, 18, 21, 24, 31, 44, 59, 75, 90, 106, 122, 128])
_NOT_FINITE = 0x7F80
_LEAST_HALVES, _MOST_HALVES = int(2 * LEAST_BITS), int(2 * MOST_BITS)

#: Codes of norms, ascending, and how many blocks have each.
Counts = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class Spending:
    """What codes of blocks take, by how far a block's norm is from a threshold that all share."""

    bits_of: Callable[[NDArray[np.int64]], NDArray[np.int64]]  #: (distances) -> bits of a value
    parts_of_bit: int  #: in which bits_of counts
    lowest: int  #: with this threshold, or a lower one, all blocks take the most


def _widths(distances: NDArray[np.int64]) -> NDArray[np.int64]:
    return 2 + sum((distances >= offset).astype(np.int64) for offset in _OFFSETS)


def _rice_sixteenths(distances: NDArray[np.int64]) -> NDArray[np.int64]:
    last = _RICE_SIXTEENTHS.size - 1
    places = np.clip(distances - _FIRST_OCTAVE * _OCTAVE, 0, last * _OCTAVE)
    octaves = np.minimum(places // _OCTAVE, last - 1)
    low, high = _RICE_SIXTEENTHS[octaves], _RICE_SIXTEENTHS[octaves + 1]
    return low + (high - low) * (places - octaves * _OCTAVE) // _OCTAVE


ADAPTIVE = Spending(_widths, 1, -_OFFSETS[-1])
RICE = Spending(_rice_sixteenths, 16, -(_RICE_SIXTEENTHS.size - 1 + _FIRST_OCTAVE) * _OCTAVE)


class Budget:
    """Divides `bits` for each value among parameters, by the norms of their blocks in the last
    multiple of 16 steps, with one threshold for the model as the library has one for a group: of
    adaptive widths, or, with RICE as `spending`, the step of Rice codes. A call gets what its
    parameters get together, in halves of a bit: the nearest number of them, where the shares of
    calls to come can spare what that is too much. What is left, or too much, goes to the next call.
    So a step never spends more than `bits` for each value, however buckets divide the parameters.

    Shares are in half-planes: half a bit for each of 128 values.
    """

    def __init__(self, bits: float, spending: Spending = ADAPTIVE):
        self.bits = bits
        self._spending = spending
        self.step = -1  #: whose results the shares are made from; below 0 before the first
        self._shares: dict[int, int] = {}  # by number of the parameter
        self._spare: dict[int, int] = {}  # what of a share is beyond the least
        # In the step under way: what waits for the norms, where a device makes them.
        self._measured: dict[int, Callable[[], torch.Tensor]] = {}
        self._due: set[int] = set()  # numbers that are to be measured in it
        self._seen: set[int] = set()  # numbers of the step under way
        self._current = -1  # that step
        self._left = 0  # half-planes of the step that no call has got; below 0 those too much
        self._to_spare = 0  # of parameters that are in no call yet
        self._quantizers: dict[tuple[str, int], Quantizer] = {}

    def begin(self, step: int | None) -> None:
        """A new backward pass; the last one, if any, has ended. None: the device alone knows the
        step, as in a CUDA graph; no result is looked at, and shares stay."""
        if step is None:
            self._measured, self._due, step = {}, set(), self.step
        self._settle()
        if self._seen and self._shares.keys() - self._seen:
            # Of another policy: those that are left are too large.
            self._shares, self._spare, self.step = {}, {}, -1
        self._current, self._left, self._seen = step, 0, set()
        self._to_spare = sum(self._spare.values())

    def quantizer_for(self, quantizer: Quantizer, value_counts: Mapping[int, int]) -> Quantizer:
        """`quantizer` with the mean_bits of the next call; value_counts are those of its
        parameters, by number."""
        block_counts = {number: -(-count // BLOCK) for number, count in value_counts.items()}
        for number, block_count in block_counts.items():
            equal_share = math.floor(2 * self.bits * block_count)
            self._left += self._shares.get(number, equal_share)
            self._to_spare -= self._spare.get(number, 0)
        block_count = max(1, sum(block_counts.values()))
        halves, rest = divmod(self._left, block_count)
        if 2 * rest > block_count and block_count - rest <= self._to_spare:
            halves += 1
        halves = min(max(halves, _LEAST_HALVES), _MOST_HALVES)
        self._left -= halves * block_count
        self._seen.update(value_counts)
        if self.step // INTERVAL != self._current // INTERVAL:
            self._due.update(value_counts)
        key = quantizer.spec, halves
        if key not in self._quantizers:
            self._quantizers[key] = with_mean_bits(quantizer, halves / 2)
        return self._quantizers[key]

    def measure(self, number: int, result: torch.Tensor) -> None:
        """Looks at the result of a call for a parameter, unless that is not due; on a device
        behind what the current stream has, and without a wait."""
        if number in self._due:
            self._measured[number] = devices.read_later(block_norms, result)

    def _settle(self) -> None:
        """Makes new shares of what was measured, if that is whole and finite: the next step is
        measured otherwise, as after an overflow of a scaled loss."""
        if self._due and self._due == set(self._measured):
            numbers = sorted(self._measured)
            counts = [norm_counts(self._measured[number]()) for number in numbers]
            if all(codes.size == 0 or codes[-1] < _NOT_FINITE for codes, _ in counts):
                self._shares = dict(zip(numbers, shares(counts, self.bits, self._spending)))
                self._spare = {number: self._shares[number] - _LEAST_HALVES * int(blocks.sum())
                               for number, (_, blocks) in zip(numbers, counts)}
                self.step = self._current
        self._measured, self._due = {}, set()

    def state_dict(self) -> dict[str, Any]:
        """Plain numbers; between two backward passes."""
        self._settle()
        return {"bits": self.bits, "step": self.step,
                "shares": [[number, share, self._spare.get(number, 0)]
                           for number, share in sorted(self._shares.items())]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Of a budget of the same bits."""
        self.step = state["step"]
        self._shares = {number: share for number, share, *_ in state["shares"]}
        self._spare = {number: spare for number, _, *rest in state["shares"] for spare in rest}
        self._measured, self._due = {}, set()


def checked_bits(budget: Any) -> float:
    """A budget as the caller gave it. Raises TypeError, or InvalidArgument outside the range."""
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise TypeError(f"budget is a {type(budget).__name__}, not a number of bits")
    if not _is_bits(budget):
        raise InvalidArgument(
            f"budget is {budget}; accepted are {LEAST_BITS} to {MOST_BITS}, the bits of a value on "
            "average; hint: HookState(budget=4)"
        )
    return budget


def is_saved_budget(saved: Any) -> bool:
    """Whether Budget.state_dict() may have made it."""
    try:
        numbers = [saved["bits"], saved["step"], *(n for share in saved["shares"] for n in share)]
        whole = all(len(share) in (2, 3) and min(share) >= 0 for share in saved["shares"])
    except (TypeError, KeyError, ValueError):
        return False
    return whole and all(isinstance(n, int) for n in numbers[1:]) and _is_bits(saved["bits"])


def _is_bits(bits: Any) -> bool:
    return isinstance(bits, (int, float)) and LEAST_BITS <= bits <= MOST_BITS


def budget_quantizer(quantizer: Quantizer | str, budget: float) -> Quantizer:
    """The quantizer of a state with this budget: the given one, or adaptive-4 where none is."""
    quantizer = as_quantizer("adaptive-4" if quantizer == "" else quantizer)
    if not has_mean_bits(quantizer):
        raise InvalidArgument(
            f"budget is {budget}, but {short_spec(quantizer.spec)} has codes of one width; hint: "
            f"HookState(budget={budget}), or a quantizer with mean_bits, as rice-4 has"
        )
    halves = math.floor(2 * budget)
    return with_mean_bits(quantizer, halves / 2)


def spending_of(quantizer: Quantizer) -> Spending:
    """Of a quantizer with mean_bits."""
    return RICE if fields_of(quantizer)["levels"] == "rice" else ADAPTIVE


def with_mean_bits(quantizer: Quantizer, mean_bits: float) -> Quantizer:
    """The same but for its mean_bits."""
    fields = {**fields_of(quantizer), "mean_bits": f"{mean_bits:g}"}
    return Quantizer(",".join(f"{name}={value}" for name, value in fields.items()))


def block_norms(values: torch.Tensor) -> torch.Tensor:
    """The norm of each block, which is exact in float32."""
    if values.numel() == 0:
        return values.float()
    whole = values.numel() // BLOCK * BLOCK
    least, most = torch.aminmax(values[:whole].view(-1, BLOCK), dim=1)
    norms = torch.maximum(least.abs(), most.abs())
    if whole < values.numel():
        norms = torch.cat([norms, values[whole:].abs().max().view(1)])
    return norms.float()


def norm_counts(norms: torch.Tensor) -> Counts:
    """How many blocks have which norm. A norm's code is the upper 13 bits of its pattern as a
    float32, as multiples of 8, so that it compares with those of the library."""
    patterns = norms.numpy().view(np.uint32).astype(np.int64)
    codes, counts = np.unique(patterns >> 19 << 3, return_counts=True)
    return codes, counts


def shares(counts: Sequence[Counts], bits: float, spending: Spending = ADAPTIVE) -> list[int]:
    """Half-planes of each parameter with these norms, all together at most `bits` for each value:
    what their blocks take with one threshold, but at least 2.5 bits for each value."""
    block_counts = np.array([int(each.sum()) for _, each in counts])
    total = math.floor(2 * bits * int(block_counts.sum()))
    codes = np.concatenate([codes for codes, _ in counts])
    weights = np.concatenate([each for _, each in counts])
    owners = np.repeat(np.arange(len(counts)), [codes.size for codes, _ in counts])
    weights, owners = weights[codes > 0], owners[codes > 0]
    codes = codes[codes > 0]

    def spent(threshold: int) -> NDArray[np.int64]:
        parts = np.zeros(len(counts), np.int64)
        np.add.at(parts, owners, spending.bits_of(codes - threshold) * weights)
        return np.maximum(2 * parts // spending.parts_of_bit, _LEAST_HALVES * block_counts)

    low, high = spending.lowest, _NOT_FINITE  # with `high` all have the least
    while low < high:
        middle = (low + high) // 2
        if int(spent(middle).sum()) <= total:
            high = middle
        else:
            low = middle + 1
    here = spent(low)
    if low == spending.lowest:
        return [int(share) for share in here]
    more = spent(low - 1) - here  # for blocks at the threshold, which get equal parts of the rest
    left, asked = total - int(here.sum()), int(more.sum())
    ends = [int(end) * left // asked for end in np.cumsum(more)]  # so that nothing is left of it
    return [int(share) + end - begin for share, begin, end in zip(here, [0, *ends], ends)]
