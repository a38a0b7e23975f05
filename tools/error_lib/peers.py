"""Small honest versions of what other systems do, each from its source; nothing of gqsgd in them.

Where a detail could go either way it goes in the peer's favour: scales are float32 in the
arithmetic and count as 16 bits, sums are float32, nothing overflows.
"""

from dataclasses import dataclass
from typing import Callable

import numpy as np

from adaptive_study.codecs import draws_of
from adaptive_study.data import Data
from adaptive_study.rivals import DynamiqLike

_SCALE_BYTES = 2


@dataclass(frozen=True)
class Peer:
    """One row of the table. bits: (up, down) of a code, scales left out."""

    name: str
    source: str
    unbiased: bool
    bits: tuple
    run: Callable  # (inputs (ranks, values), random) -> mean (values)
    bytes_per_value: Callable  # (rank_count, value_count) -> sent by one rank, scales included


def local_scale(bits, block, rounding):
    """Symmetric integers, one scale per block and rank: the code of the quantising allreduces."""
    top = 2**(bits - 1) - 1

    def code(x, random):
        blocks = _blocks(x, block)
        scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(top)
        t = blocks / np.where(scale > 0, scale, np.float32(1))
        if rounding == "nearest":
            codes = np.rint(t)
        else:
            codes = np.floor(t + random.random(t.shape, np.float32))
        return (np.clip(codes, -top, top) * scale).reshape(-1)[:len(x)]

    return code


def extreme_at_minus_8(x, _):
    """4-bit integers -8..7 whose scale sends the block's extreme value to -8."""
    blocks = _blocks(x, 32)
    extreme = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)
    scale = extreme / np.float32(-8)
    t = blocks / np.where(scale != 0, scale, np.float32(1))
    return (np.clip(np.rint(t), -8, 7) * scale).reshape(-1)[:len(x)]


def bfloat16(rounding):
    """The upper half of the float32 pattern."""

    def code(x, random):
        patterns = x.view(np.uint32)
        if rounding == "nearest":
            added = np.uint32(0x7FFF) + (patterns >> np.uint32(16) & np.uint32(1))
        else:
            added = random.integers(2**16, size=len(x), dtype=np.uint32)
        return (patterns + added & np.uint32(0xFFFF0000)).view(np.float32)

    return code


def power_of_two(x, random):
    """One of the two neighbouring powers of two, at random without bias."""
    mantissa, exponent = np.frexp(np.abs(x))  # in [1/2, 1)
    up = random.random(len(x), np.float32) < 2 * mantissa - 1
    return np.copysign(np.ldexp(np.where(x == 0, np.float32(0), np.float32(0.5)), exponent + up), x)


def two_shot(code):
    """Decode, add, encode again: what every peer does that reduces codes with local scales."""

    def run(inputs, random):
        total = np.zeros(inputs.shape[1], np.float32)
        for x in inputs:
            total += code(x, random)
        return code(total / np.float32(len(inputs)), random)

    return run


def qsgd(inputs, random):
    """Every rank's codes to every rank, which decodes and averages; one largest value per rank."""
    code = local_scale(8, inputs.shape[1], "random")
    return np.mean([code(x, random) for x in inputs], axis=0)


def uniform_thc(bits):
    """Rotated as a whole, 2^bits levels between the least and the largest value of all ranks,
    integers added exactly: one rounding, none on the way down."""

    def run(inputs, random):
        value_count = inputs.shape[1]
        padded_count = 2**(value_count - 1).bit_length()
        signs = random.integers(2, size=padded_count) * np.float32(2) - np.float32(1)
        rotated = np.zeros((len(inputs), padded_count), np.float32)
        rotated[:, :value_count] = inputs
        for row in rotated:
            row[:] = _hadamard(row * signs)
        low, high = rotated.min(), rotated.max()
        step = (high - low) / np.float32(2**bits - 1)
        total = np.zeros(padded_count)
        for row in rotated:
            total += np.floor((row - low) / step + random.random(padded_count, np.float32))
        mean = (total / len(inputs) * step + low).astype(np.float32)
        return (_hadamard(mean) * signs)[:value_count]

    return run


def dynamiq(bits):
    """More bits for groups of more energy, sent along: adaptive_study.rivals.DynamiqLike."""

    def run(inputs, random):
        data = Data("call", inputs, (0, inputs.shape[1]), (inputs.shape[1],))
        return DynamiqLike(bits).run(data, draws_of(data, int(random.integers(2**32)))).mean

    return run


def _hadamard(values):
    """The orthonormal transform of 2^k values."""
    distance = 1
    while distance < len(values):
        pairs = values.reshape(-1, 2, distance)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        values = values.reshape(-1)
        distance *= 2
    return values / np.float32(np.sqrt(len(values)))


def _blocks(x, block):
    padded = np.zeros(-(-len(x) // block) * block, np.float32)
    padded[:len(x)] = x
    return padded.reshape(-1, block)


def _two_shot_bytes(bits, block=None):
    def count(rank_count, value_count):
        scales = 0 if block is None else _SCALE_BYTES * -(-value_count // block)
        return 2 * (rank_count - 1) / rank_count * (bits / 8 + scales / value_count)

    return count


def _allgather_bytes(rank_count, value_count):
    return (rank_count - 1) * (1 + _SCALE_BYTES / value_count)


def _thc_bytes(bits):
    def count(rank_count, value_count):
        padded_count = 2**(value_count - 1).bit_length()
        bits_down = (rank_count * (2**bits - 1)).bit_length()
        return (rank_count - 1) / rank_count * (bits + bits_down) / 8 * padded_count / value_count

    return count


def _integers(bits, block, rounding):
    return Peer(
        f"int{bits} two-shot, scale per {block}, {rounding}",
        "EQuARX (arXiv 2506.17615), DeepSpeed coalesced_collectives.py (qgZ)",
        rounding == "random", (bits, bits), two_shot(local_scale(bits, block, rounding)),
        _two_shot_bytes(bits, block))


PEERS = (
    *(_integers(bits, block, rounding) for bits in (8, 4) for block in (128, 32)
      for rounding in ("nearest", "random")),
    Peer("int4 two-shot, scale per 32, extreme at -8", "vLLM quick_reduce_impl.cuh (QuickReduce)",
         False, (4, 4), two_shot(extreme_at_minus_8), _two_shot_bytes(4, 32)),
    Peer("QSGD 8 bits, scale per rank, allgather", "Alistarh et al., NeurIPS 2017", True, (8, 8),
         qsgd, _allgather_bytes),
    Peer("uniform THC 4 bits", "Li et al., NSDI 2024, algorithm 1 with rotation", True, (4, 8),
         uniform_thc(4), _thc_bytes(4)),
    *(Peer(f"DynamiQ-like {bits} bits", "after the description of arXiv 2602.08923", True,
           (bits, bits), dynamiq(bits), _two_shot_bytes(bits)) for bits in (5, 6)),
    Peer("natural compression, 9 bits two-shot", "Horvath et al., MSML 2022", True, (9, 9),
         two_shot(power_of_two), _two_shot_bytes(9)),
    Peer("bfloat16 two-shot, nearest", "NCCL with bfloat16 gradients", False, (16, 16),
         two_shot(bfloat16("nearest")), _two_shot_bytes(16)),
    Peer("bfloat16 two-shot, random", "torchcomms nccl.h.in (quantised reduce-scatter)", True,
         (16, 16), two_shot(bfloat16("random")), _two_shot_bytes(16)),
)
