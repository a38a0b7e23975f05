"""Embeddings whose gradients have few rows: what each way of sending them takes."""

from dataclasses import dataclass

import gqsgd
import numpy as np
from study_lib.markdown import paragraph, table

from .contenders import BY_NAME
from .domains import DOMAINS, Training

DOMAIN, SEED, STEPS = "clicks", 0, 10
_ID_BYTES = 8  # as PyTorch has them in a sparse gradient


@dataclass(frozen=True)
class Touched:
    """Means over steps. rows, of_any: of a rank, and of any rank, that are not zero."""

    ranks: int
    all_rows: int
    width: int
    rows: float
    of_any: float
    other_values: int  # of the rest of the network

    @property
    def values(self):
        return self.all_rows * self.width + self.other_values


def touched(rank_count):
    training = Training(DOMAINS[DOMAIN], SEED)
    tables = [parameter for parameter in training.network.fields.parameters()]
    width = tables[0].shape[1]
    all_rows = sum(table.shape[0] for table in tables)
    own, of_any = [], []
    for _ in range(STEPS):
        gradients = training.gradients(rank_count)
        filled = gradients[:, :all_rows * width].reshape(rank_count, all_rows, width).any(axis=2)
        own.append(filled.sum(axis=1).mean())
        of_any.append(filled.any(axis=0).sum())
        training.apply(gradients.mean(axis=0))
    return Touched(rank_count, all_rows, width, float(np.mean(own)), float(np.mean(of_any)),
                   gradients.shape[1] - all_rows * width)


def bytes_sent(found):
    """{way: bytes that a rank sends in a step}."""
    n = found.ranks
    dense = 2 * (n - 1) / n  # of an allreduce, for each byte of it
    rest = dense * 4 * found.other_values
    row = _ID_BYTES + 4 * found.width
    ids = (n - 1) * found.rows * _ID_BYTES
    ways = {"float32, all rows": dense * 4 * found.values,
            "fp16 hook, all rows": dense * 2 * found.values,
            **{f"`{name}`, all rows": dense * found.values * bytes_per_value(name)
               for name in ("blocks-8", "adaptive-4")},
            "float32, own rows to all ranks": (n - 1) * found.rows * row + rest,
            "ids to all ranks, then float32 of their rows":
                ids + dense * 4 * found.width * found.of_any + rest,
            "ids to all ranks, then `blocks-8` of their rows":
                ids + dense * found.width * found.of_any * bytes_per_value("blocks-8") + rest}
    return ways


def bytes_per_value(name):
    """Of codes and norms in one direction, by the library's own counters."""
    assert BY_NAME[name].kind == "ours"
    count = 1 << 16
    inputs = [np.ones(count, np.float32)] * 2

    def sent(comm):
        comm.allreduce(inputs[comm.rank], gqsgd.Quantizer(name), schedule="direct")
        return comm.stats("payload_bytes_sent")["payload_bytes_sent"]

    return gqsgd.run_local(2, sent)[0] / count


def section():
    """Of the page: 4 and 16 ranks."""
    found = [touched(ranks) for ranks in (4, 16)]
    sent = [bytes_sent(one) for one in found]
    rows = [[way, *(f"{of_ranks[way] / 1e3:.0f} kB" for of_ranks in sent)] for way in sent[0]]
    few, many = found
    return [paragraph(
        f"""A step of *clicks* touches few rows: of {few.all_rows:,} a rank touches
        {few.rows:.0f}, {few.ranks} ranks together {few.of_any:.0f} and {many.ranks} ranks
        {many.of_any:.0f} (means of {STEPS} steps). Codes of all rows send the zeros too. What a
        rank sends in a step:"""),
        table(["", *(f"{one.ranks} ranks" for one in found)], rows), paragraph(
        """Own rows to all ranks is what PyTorch does with `Embedding(sparse=True)`: exact, and
        fewer bytes than `blocks-8` with 4 ranks, more with 16, because it is an allgather.
        Where rows are few, exchange their ids first and average these rows alone, in float32 or in
        codes. The hook does not do it: there are no sparse gradients
        ([PYTORCH.md](../PYTORCH.md)).""")]
