"""The measuring: every scheme on the inputs of one (data, ranks, seed), and sums over seeds."""

import zlib
from dataclasses import dataclass, field

import numpy as np

from .executors import Refusal, bound, library_mean, reference_mean
from .generators import GENERATORS
from .peers import PEERS
from .schemes import SCHEMES


@dataclass(frozen=True)
class Plan:
    """What is measured; small enough to pickle."""

    data: tuple
    rank_counts: tuple
    seed_count: int
    reference_seed_count: int
    reference_ranks_max: int
    value_count: int
    checkpoints: dict  # {data: Checkpoint or Recording} of the gradients among them


@dataclass
class Cell:
    """One scheme on one kind of data with n ranks, over the seeds."""

    errors: list = field(default_factory=list)  # |G - mean|^2 / |mean|^2, one per seed
    reference_errors: list = field(default_factory=list)  # of the first seeds
    same_bits: list = field(default_factory=list)  # library against reference, one per such seed
    bound_shares: list = field(default_factory=list)  # error over its bound, one per seed
    bound_refusal: Refusal | None = None  # why there is no bound
    bytes_per_value: float = 0.0
    refusal: Refusal | None = None

    @property
    def error(self):
        """The mean over seeds; None where nothing was measured."""
        return float(np.mean(self.errors)) if self.errors else None


def units(plan):
    """(data, ranks, seed) in the order of measuring: the long ones last. Recorded gradients have
    16 ranks at most."""
    return [(data, rank_count, seed) for rank_count in plan.rank_counts for data in plan.data
            if data not in plan.checkpoints
            or rank_count <= plan.checkpoints[data].rank_count_max
            for seed in range(plan.seed_count)]


def inputs_of(plan, data, rank_count, seed):
    """(ranks, values) float32, the same for every scheme."""
    if data in plan.checkpoints:
        return plan.checkpoints[data].rank_gradients(rank_count, seed)
    random = np.random.default_rng([seed, zlib.crc32(data.encode())])
    return GENERATORS[data](random, rank_count, plan.value_count)


def measure(plan, unit):
    """{scheme's name: a Cell of this one seed}."""
    data, rank_count, seed = unit
    inputs = inputs_of(plan, data, rank_count, seed)
    exact = inputs.mean(axis=0, dtype=np.float64)
    energy = sum(np.sum(row.astype(np.float64)**2) for row in inputs) / rank_count
    cells = {}
    for scheme in SCHEMES:
        cells[scheme.name] = _library_cell(plan, scheme, inputs, exact, energy, seed)
    for number, peer in enumerate(PEERS):
        random = np.random.default_rng([seed, 1 + number])
        error = relative_error(peer.run(inputs, random), exact)
        cells[peer.name] = Cell([error], bytes_per_value=peer.bytes_per_value(*inputs.shape))
    return cells


def _library_cell(plan, scheme, inputs, exact, energy, seed):
    cell = Cell(bytes_per_value=scheme.bytes_per_value(*inputs.shape))
    mean = library_mean(scheme, inputs, seed)
    if isinstance(mean, Refusal):
        cell.refusal = mean
    else:
        cell.errors.append(relative_error(mean, exact))
        theta = bound(scheme, *inputs.shape)
        if isinstance(theta, Refusal):
            cell.bound_refusal = theta
        else:
            share = cell.errors[0] * float(np.vdot(exact, exact)) / (theta * energy)
            cell.bound_shares.append(share)
    if seed < plan.reference_seed_count and len(inputs) <= plan.reference_ranks_max:
        again = reference_mean(scheme, inputs, seed)
        if not isinstance(again, Refusal):
            cell.reference_errors.append(relative_error(again, exact))
            if cell.errors:
                cell.same_bits.append(mean.tobytes() == again.tobytes())
    return cell


def relative_error(mean, exact):
    """|mean - exact|^2 / |exact|^2 in float64."""
    difference = mean - exact
    return float(np.vdot(difference, difference) / np.vdot(exact, exact))


def collect(results):
    """{(data, ranks): {scheme's name: Cell over all seeds}} of (unit, cells) in order of seeds."""
    table = {}
    for (data, rank_count, _), cells in results:
        group = table.setdefault((data, rank_count), {})
        for name, one in cells.items():
            cell = group.setdefault(name, Cell(bytes_per_value=one.bytes_per_value))
            for values in ("errors", "reference_errors", "same_bits", "bound_shares"):
                getattr(cell, values).extend(getattr(one, values))
            cell.refusal = cell.refusal or one.refusal
            cell.bound_refusal = cell.bound_refusal or one.bound_refusal
    return table
