"""Times of a training step: predicted by the cost model (docs/COST.md), or as measured between
hosts (docs/results/network.md)."""

import functools
import math
import re
from pathlib import Path

import gqsgd

from .contenders import BY_NAME, FLOAT32, FP16

_PAGE = Path(__file__).resolve().parents[2] / "docs/results/network.md"
_FIRST_BUCKET_VALUES = 2**20 // 4
BUCKET_VALUES = 25 * _FIRST_BUCKET_VALUES
# The network of tools/netsteps --overlap: six hidden layers of 1,024, on 784 pixels.
_SIZES = (784, *[1024] * 6, 10)
SHAPES = tuple(shape for a, b in zip(_SIZES, _SIZES[1:]) for shape in ((b, a), (b,)))
VALUES = sum(math.prod(shape) for shape in SHAPES)
_NAMES = {"none: DDP's own float32 allreduce, Gloo": FLOAT32, "DDP": FLOAT32,
          "PyTorch's `fp16_compress_hook`, Gloo": FP16, "PyTorch's `fp16_compress_hook`": FP16}


def step_seconds(name, ranks, values, bits_per_s, compute_s):
    """Predicted: `gqsgd-plan --advise` has the same model. Gradients are ready evenly over the last
    two thirds of the compute, in PyTorch's buckets, whose allreduces follow one another.

    A rival takes as long as floats of as many bytes: its codec takes no time here.
    """
    end_s, ready = 0.0, 0
    for count in buckets_of(values):
        ready += count
        ready_s = compute_s / 3 * (1 + 2 * ready / values)
        end_s = max(end_s, ready_s) + allreduce_seconds(name, ranks, count, bits_per_s)
    return end_s


def buckets_of(values):
    """Values of the buckets of DistributedDataParallel, in the order in which they are ready."""
    first = min(_FIRST_BUCKET_VALUES, values)
    return [first] + [min(BUCKET_VALUES, values - done)
                      for done in range(first, values, BUCKET_VALUES)]


def constants_of(bits_per_s):
    """Those of the library, for a link of this rate."""
    return f"byte_ns = {8e9 / bits_per_s:.6g}\n"


@functools.cache
def allreduce_seconds(name, ranks, values, bits_per_s):
    contender = BY_NAME[name]
    constants = constants_of(bits_per_s)
    if contender.values_sent is None:
        quantizer = gqsgd.Quantizer(contender.timed_as or name)
        return gqsgd.predict_time(quantizer, ranks, values, "direct", constants=constants)
    share = contender.values_sent(ranks, SHAPES) / VALUES
    return gqsgd.predict_time(gqsgd.Quantizer("none"), ranks, max(1, round(share * values)), "auto",
                              constants=constants)


def measured_steps():
    """[(title, {contender: seconds of a step})] of the page: 4 hosts, the network of SHAPES."""
    section = _PAGE.read_text().partition("## Steps of DistributedDataParallel")[2]
    tables = re.findall(r"((?:^\|.*\n)+)", section.partition("\n## ")[0], flags=re.MULTILINE)
    first, second = (_rows(table) for table in tables[:2])
    found = [("1 Gbit/s, 150 ms of compute", _column(first, 1)),
             ("1 Gbit/s, 40 ms of compute", _column(second, 1)),
             ("200 Mbit/s, 40 ms of compute", _column(second, 4))]
    for title, times in found:
        if FLOAT32 not in times or FP16 not in times or "blocks-8" not in times:
            raise ValueError(f"{_PAGE}: no steps of {title}, only {sorted(times)}")
    return found


def _rows(table):
    return [[cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in table.splitlines()[2:]]


def _column(rows, number):
    """{contender: seconds} of a column of milliseconds."""
    found = {}
    for row in rows:
        preset = re.fullmatch(r"`([\w-]+)`, over UCX", row[0])
        name = preset[1] if preset else _NAMES.get(row[0])
        if name in BY_NAME and (name in (FLOAT32, FP16) or BY_NAME[name].kind != "rival"):
            found[name] = float(row[number]) * 1e-3
    return found


def map_cells():
    """(ranks, compute_s, bits_per_s, values) of the 200 cells of the map."""
    return [(ranks, compute_s, rate, values) for ranks in (4, 16)
            for compute_s in (0.02, 0.1, 0.3, 1.0) for values in (500_000, 6_000_000, 25_000_000,
                                                                  100_000_000, 400_000_000)
            for rate in (0.2e9, 1e9, 5e9, 10e9, 25e9)]
