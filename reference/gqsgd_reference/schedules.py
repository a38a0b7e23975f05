"""Who reduces what with whom, and in which order (FORMAT.md section 10); no values, no words."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reduction:
    """`rank` merges the codes of `peer` (operand a) for one part into its own (operand b)."""

    part: int
    rank: int
    peer: int
    hop: int
    weight_a: int
    weight_b: int


@dataclass(frozen=True)
class Plan:
    """reductions: in an order in which they can run; owners: the rank that ends with each part."""

    owners: tuple
    reduction_depth: int
    reductions: tuple


def part_bounds(value_count, part_count, block=0, rotation=0):
    """[(begin, end)] of the parts of a call, in elements; rotation: 1024 where there is one."""
    alignment = max(32, block, rotation)
    shard = -(-(-(-value_count // part_count)) // alignment) * alignment
    edges = [min(part * shard, value_count) for part in range(part_count + 1)]
    return list(zip(edges[:-1], edges[1:]))


def ceil_log2(count):
    """The least k with 2^k >= count."""
    return (count - 1).bit_length()


def ring(rank_count):
    """Part j starts at rank j + 1 and gathers one rank per hop until it reaches rank j."""
    reductions = []
    for hop in range(1, rank_count):
        for part in range(rank_count):
            rank = (part + 1 + hop) % rank_count
            reductions.append(Reduction(part, rank, (rank - 1) % rank_count, hop, hop, 1))
    return Plan(tuple(range(rank_count)), rank_count - 1, tuple(reductions))


def tree(rank_count):
    """Binomial: at hop k the ranks that are multiples of 2^k merge their child 2^(k-1) above."""
    merged = [1] * rank_count
    reductions = []
    for hop in range(1, ceil_log2(rank_count) + 1):
        for rank in range(0, rank_count, 2**hop):
            child = rank + 2**(hop - 1)
            if child < rank_count:
                reductions.append(Reduction(0, rank, child, hop, merged[child], merged[rank]))
                merged[rank] += merged[child]
    return Plan((0,), ceil_log2(rank_count), tuple(reductions))


def butterfly(rank_count):
    """Recursive halving among P ranks; the others fold into them first."""
    P = 2**(rank_count.bit_length() - 1)
    merged = [1] * P
    reductions = []
    for folded in range(P, rank_count):
        rank = folded - P
        reductions += [Reduction(part, rank, folded, 1, 1, 1) for part in range(P)]
        merged[rank] = 2
    for k in range(1, P.bit_length()):
        width = P >> k  # parts that a rank keeps at this stage
        for rank in range(P):
            peer = rank ^ width
            kept = range(rank // width * width, (rank // width + 1) * width)
            reductions += [Reduction(part, rank, peer, k + 1, merged[peer], merged[rank])
                           for part in kept]
        merged = [merged[rank] + merged[rank ^ width] for rank in range(P)]
    return Plan(tuple(range(P)), ceil_log2(rank_count), tuple(reductions))


def direct(rank_count):
    """Every owner adds all operands at once, wide: no reduction in code form."""
    return Plan(tuple(range(rank_count)), 0, ())


def native(rank_count):
    """The transport adds all operands, as integers: who does is its own matter."""
    return Plan((0,), min(1, rank_count - 1), ())


SCHEDULES = {"ring": ring, "tree": tree, "butterfly": butterfly, "direct": direct,
             "native": native}
