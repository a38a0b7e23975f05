"""Thresholds of correlated rounding: each rank's own stratum of [0, 2^23) (FORMAT.md section 5), or
each node's (section 10)."""

from functools import lru_cache

import numpy as np

from .random import (QUANTIZE, REENCODE, STRATUM_A, STRATUM_B, counters, key, philox4x32,
                     random_words)

GROUP_RANK_COUNT = 1024
FIELD_MODULI = (None, 0x3, 0x7, 0xB, 0x13, 0x25, 0x43, 0x83, 0x11B, 0x211, 0x409)  # by m


def field_order(group_rank_count):
    """m if the strata of a group are the elements of GF(2^m), else 0."""
    m = group_rank_count.bit_length() - 1
    return m if group_rank_count == 2**m else 0


def field_product(a, j, m):
    """a * j in GF(2^m) for an array a of elements and one element j."""
    a = np.asarray(a, dtype=np.uint64)
    product = np.zeros_like(a)
    for t in range(m):
        if j >> t & 1:
            product ^= a << np.uint64(t)
    for t in range(2 * m - 2, m - 1, -1):
        overflows = product >> np.uint64(t) & np.uint64(1)
        product ^= overflows * np.uint64(FIELD_MODULI[m] << (t - m))
    return product


def stratum_count(group_rank_count):
    """Q: the group's own size where it is a power of two, else the smallest prime not below it."""
    if group_rank_count & (group_rank_count - 1) == 0:
        return group_rank_count
    Q = group_rank_count
    while any(Q % divisor == 0 for divisor in range(2, int(Q**0.5) + 1)):
        Q += 1
    return Q


def strata(a, b, j, group_rank_count):
    """k of local rank j for shared a in 1 .. Q - 1 and b in 0 .. Q - 1, as uint64."""
    m = field_order(group_rank_count)
    if m:
        return field_product(a, j, m) ^ b
    return (a * np.uint64(j) + b) % np.uint64(stratum_count(group_rank_count))


def factor_words(call, group, hop, first_value, value_count):
    """A of elements, the same for 16 of them: 32 bits each, as uint64."""
    F0, F1 = philox4x32(counters(call, STRATUM_A, group, hop, [0]), key(call))[0, :2]
    elements = np.arange(first_value, first_value + value_count, dtype=np.uint64)
    return (F0 + elements // np.uint64(16) * F1) % np.uint64(2**32)


@lru_cache(maxsize=4)
def shared_draws(call, group, hop, Q, first_value, value_count):
    """(a, b) of elements; one group's ranks ask for them one after another."""
    A = factor_words(call, group, hop, first_value, value_count)
    R = random_words(call, STRATUM_B, group, hop, first_value, value_count)
    a = np.uint64(1) + (A * np.uint64(Q - 1) >> np.uint64(32))
    b = R * np.uint64(Q) >> np.uint64(32)
    a.flags.writeable = b.flags.writeable = False
    return a, b


def group_size(rank, rank_count):
    """Ranks that share strata with this one, itself among them; nodes likewise."""
    return min(GROUP_RANK_COUNT, rank_count - rank // GROUP_RANK_COUNT * GROUP_RANK_COUNT)


def thresholds(call, rank, rank_count, first_value, value_count):
    """r of elements for one rank: 23 bits each, as uint64."""
    own = random_words(call, QUANTIZE, rank, 0, first_value, value_count)
    return _stratified(call, own, rank, rank_count, 0, first_value)


def node_thresholds(call, owner, node, node_count, hop, first_value, value_count):
    """The same for the sum of a node, which `owner` encodes."""
    own = random_words(call, REENCODE, owner, hop, first_value, value_count)
    return _stratified(call, own, node, node_count, hop, first_value)


def _stratified(call, own, member, member_count, hop, first_value):
    v = own % np.uint64(2**23)
    group, j = divmod(member, GROUP_RANK_COUNT)
    size = group_size(member, member_count)
    if size == 1:
        return v
    Q = stratum_count(size)
    a, b = shared_draws(call, group, hop, Q, first_value, len(own))
    k = strata(a, b, j, size)
    m = field_order(size)
    if m:
        return k * np.uint64(2**(23 - m)) + v % np.uint64(2**(23 - m))
    return (k * np.uint64(2**23) + v) // np.uint64(Q)
