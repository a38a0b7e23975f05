"""Cases for correlated rounding: products in each field, and the threshold r of each rank."""

import numpy as np
from gqsgd_reference.correlated import field_product, stratum_count, thresholds
from gqsgd_reference.random import Call

DESCRIPTION = """
Thresholds of correlated rounding (FORMAT.md section 5).
rank_count, rank; seed, stream_id, step, index, first_value, value_count: integers.
thresholds: r of each element, 8 hex digits.
Cases field_m: m; a, j, product: elements of GF(2^m), 8 hex digits each.
Cases stratum_count: rank_counts: of a group; stratum_counts: Q; decimal."""

_CALL = Call(seed=0x0011223344556677, stream_id=2, step=5, index=6)


def _record(case, call, rank_count, rank, first_value, value_count=33):
    r = thresholds(call, rank, rank_count, first_value, value_count)
    return {"case": case, "rank_count": rank_count, "rank": rank, "seed": call.seed,
            "stream_id": call.stream_id, "step": call.step, "index": call.index,
            "first_value": first_value, "value_count": value_count,
            "thresholds": r.astype(np.uint32)}


def _field(m):
    """All products of small fields, ends and a mixture of the others."""
    size = 2**m
    elements = (range(size) if size <= 8
                else sorted({0, 1, 2, 3, size // 2 - 1, size // 2, size - 2, size - 1}))
    pairs = [(a, j) for a in elements for j in elements]
    products = [int(field_product(np.uint64([a]), j, m)[0]) for a, j in pairs]
    a, j = np.array(pairs, dtype=np.uint32).T
    return {"case": f"field_{m}", "m": m, "a": a, "j": j, "product": np.uint32(products)}


def correlated():
    """Every field, primes above, below and at the group, several groups, far counters."""
    records = [_field(m) for m in range(1, 11)]
    counts = [*range(1, 20), 31, 32, 33, 509, 512, 521, 1000, 1022, 1023, 1024]
    records.append({"case": "stratum_count", "rank_counts": counts,
                    "stratum_counts": [stratum_count(count) for count in counts]})
    groups = [(1, 0), (2, 0), (2, 1), (3, 0), (3, 2), (4, 1), (4, 3), (5, 4), (6, 5), (7, 3),
              (8, 7), (9, 8), (16, 9), (32, 31), (64, 63), (100, 99), (128, 77), (256, 255),
              (257, 256), (512, 300), (1000, 999), (1023, 1022), (1024, 0), (1024, 1023),
              (1025, 0), (1025, 1024), (1026, 1025), (1027, 1026), (2048, 2047), (3000, 2999),
              (2**20, 2**20 - 1)]
    records += [_record(f"rank_{rank}_of_{count}", _CALL, count, rank, 0) for count, rank in groups]
    for first in (32, 2**36 - 32, 2**44 - 64):
        records.append(_record(f"first_value_{first}", _CALL, 6, 3, first))
        records.append(_record(f"field_first_value_{first}", _CALL, 8, 3, first))
    return records


FILES = {"correlated.txt": (DESCRIPTION, correlated)}
