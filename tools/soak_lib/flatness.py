"""Whether a series of samples grows.

The test: the first third of a run is warm-up and is left out. The rest is cut into buckets of equal
numbers of rounds; a bucket's value is its median, so that a single high sample counts for nothing.
The slope is the median of the slopes between all pairs of buckets (Theil and Sen). The growth is
the slope times the length of the rest. A series grows if its growth is above the allowance of
LIMITS and above 4 standard deviations of the buckets about the line, taken as 1.4826 times the
median distance."""

import statistics
from dataclasses import dataclass

BUCKETS = 40
WARM_UP = 1 / 3
DEVIATIONS = 4
KIB = 1024
# Name: what a run may add that is no growth. Descriptors and threads are as many after each round.
# The C library keeps up to five stacks of threads that have ended, of two mappings each, and freed
# pages in the middle of its heap, which end up in three more. 1 KiB a call is 1 MiB in 1,000 calls
# of a process; a minute has several thousand.
LIMITS = {
    "heap": 64 * KIB,
    "resident": 1024 * KIB,
    "proportional": 1024 * KIB,
    "descriptors": 0.9,
    "threads": 0.9,
    "mappings": 15.9,
}


@dataclass(frozen=True)
class Growth:
    """Of one series over the rounds after the warm-up."""

    name: str
    first: float  # medians of the first and the last bucket
    last: float
    growth: float
    noise: float
    grows: bool


def growth(name, values):
    """values: a sample for each round."""
    kept = values[int(len(values) * WARM_UP):]
    count = min(BUCKETS, len(kept))
    edges = [len(kept) * k // count for k in range(count + 1)]
    medians = [statistics.median(kept[first:last]) for first, last in zip(edges, edges[1:])]
    slopes = [(medians[b] - medians[a]) / (b - a)
              for a in range(count) for b in range(a + 1, count)]
    slope = statistics.median(slopes) if slopes else 0.0
    middle = statistics.median(value - slope * k for k, value in enumerate(medians))
    noise = 1.4826 * statistics.median(
        abs(value - slope * k - middle) for k, value in enumerate(medians))
    risen = slope * (count - 1)
    return Growth(name, medians[0], medians[-1], risen, noise,
                  risen > LIMITS[name] and risen > DEVIATIONS * noise)
