"""Schedules: every contribution combined exactly once, weights and chains as documented."""

import pytest
from gqsgd_reference.schedules import SCHEDULES, butterfly, ceil_log2, part_bounds, ring, tree

RANK_COUNTS = (*range(1, 34), 63, 64, 65, 100, 127, 128, 129, 130)
IN_CODE_FORM = ("ring", "tree", "butterfly")


def merge(plan, rank_count):
    """Runs a plan on sets of ranks: (sets of the owners, chain lengths of the owners)."""
    part_count = len(plan.owners)
    held = {(rank, part): {rank} for rank in range(rank_count) for part in range(part_count)}
    depth = dict.fromkeys(held, 0)
    last_hop = dict.fromkeys(held, 0)
    for one in plan.reductions:
        own, peer = (one.rank, one.part), (one.peer, one.part)
        assert held[own].isdisjoint(held[peer]), one
        assert (one.weight_a, one.weight_b) == (len(held[peer]), len(held[own])), one
        assert one.hop > max(last_hop[own], last_hop[peer]), one
        held[own] = held[own] | held.pop(peer)  # a peer's codes are spent
        depth[own] = max(depth[own], depth[peer]) + 1
        last_hop[own] = one.hop
    owners = [(rank, part) for part, rank in enumerate(plan.owners)]
    assert sorted(held) == sorted(owners)
    return [held[owner] for owner in owners], [depth[owner] for owner in owners]


@pytest.mark.parametrize("schedule", IN_CODE_FORM)
@pytest.mark.parametrize("rank_count", RANK_COUNTS)
def test_every_rank_is_combined_exactly_once_in_every_part(schedule, rank_count):
    plan = SCHEDULES[schedule](rank_count)
    sets, depths = merge(plan, rank_count)
    assert all(ranks == set(range(rank_count)) for ranks in sets)
    assert max(depths) == plan.reduction_depth


@pytest.mark.parametrize("schedule", IN_CODE_FORM)
@pytest.mark.parametrize("rank_count", RANK_COUNTS)
def test_no_rank_reduces_twice_at_one_hop_of_a_part(schedule, rank_count):
    """So no random word serves two reductions of an element."""
    plan = SCHEDULES[schedule](rank_count)
    places = [(one.rank, one.hop, one.part) for one in plan.reductions]
    assert len(set(places)) == len(places) == (rank_count - 1) * len(plan.owners)


@pytest.mark.parametrize("rank_count", RANK_COUNTS)
def test_chains_are_as_long_as_stated(rank_count):
    assert ring(rank_count).reduction_depth == rank_count - 1
    depths = tree(rank_count).reduction_depth, butterfly(rank_count).reduction_depth
    assert depths == (ceil_log2(rank_count),) * 2
    assert ceil_log2(rank_count) == min(k for k in range(9) if 2**k >= rank_count)


def test_ring_of_three_by_hand():
    listed = {(one.part, one.hop): (one.rank, one.peer, one.weight_a, one.weight_b)
              for one in ring(3).reductions}
    assert listed == {(0, 1): (2, 1, 1, 1), (0, 2): (0, 2, 2, 1), (1, 1): (0, 2, 1, 1),
                      (1, 2): (1, 0, 2, 1), (2, 1): (1, 0, 1, 1), (2, 2): (2, 1, 2, 1)}


def test_tree_of_seven_by_hand():
    listed = [(one.hop, one.rank, one.peer, one.weight_a, one.weight_b)
              for one in tree(7).reductions]
    assert listed == [(1, 0, 1, 1, 1), (1, 2, 3, 1, 1), (1, 4, 5, 1, 1), (2, 0, 2, 2, 2),
                      (2, 4, 6, 1, 2), (3, 0, 4, 3, 4)]


def test_butterfly_of_six_by_hand():
    """P = 4: ranks 4 and 5 fold at hop 1, then partners at distance 2 and 1."""
    rank_0 = [(one.hop, one.peer, one.part, one.weight_a, one.weight_b)
              for one in butterfly(6).reductions if one.rank == 0]
    assert rank_0 == [(1, 4, 0, 1, 1), (1, 4, 1, 1, 1), (1, 4, 2, 1, 1), (1, 4, 3, 1, 1),
                      (2, 2, 0, 1, 2), (2, 2, 1, 1, 2), (3, 1, 0, 3, 3)]
    rank_3 = [(one.hop, one.peer, one.part, one.weight_a, one.weight_b)
              for one in butterfly(6).reductions if one.rank == 3]
    assert rank_3 == [(2, 1, 2, 2, 1), (2, 1, 3, 2, 1), (3, 2, 3, 3, 3)]


def test_butterfly_hops_do_not_depend_on_whether_a_fold_took_place():
    assert {one.hop for one in butterfly(4).reductions} == {2, 3}
    assert {one.hop for one in butterfly(5).reductions} == {1, 2, 3}


@pytest.mark.parametrize("part_count", (1, 2, 3, 7, 8, 33))
def test_parts_cover_the_call_in_whole_words(part_count):
    for value_count in (*range(0, 300), 1000, 65537, 2**40 + 1):
        bounds = part_bounds(value_count, part_count)
        assert len(bounds) == part_count and bounds[0][0] == 0 and bounds[-1][1] == value_count
        assert all(left[1] == right[0] for left, right in zip(bounds, bounds[1:]))
        shard = bounds[0][1] - bounds[0][0]
        for begin, end in bounds:
            assert begin % 32 == 0 or begin == value_count
            assert end == value_count or end - begin == shard
            assert end - begin <= shard <= -(-value_count // part_count) + 31


@pytest.mark.parametrize("block, rotation, alignment", (
    (0, 0, 32), (32, 0, 32), (128, 0, 128), (128, 1024, 1024), (0, 1024, 1024),
    (4096, 1024, 4096)))
@pytest.mark.parametrize("part_count", (1, 3, 8))
def test_parts_hold_whole_blocks_and_whole_rotations(block, rotation, alignment, part_count):
    for value_count in (0, 1, 129, 1000, 5000, 100000):
        bounds = part_bounds(value_count, part_count, block, rotation)
        assert bounds[0][0] == 0 and bounds[-1][1] == value_count
        assert all(begin % alignment == 0 or begin == value_count for begin, _ in bounds)
        shard = -(-value_count // part_count)
        assert bounds[0][1] == min(value_count, -(-shard // alignment) * alignment)
        if rotation:  # the padded count has the same shards
            padded = -(-value_count // 1024) * 1024
            shards = [part_bounds(count, part_count, block, rotation)[:-1]
                      for count in (value_count, padded)]
            assert [min(edge, value_count) for part in shards[1] for edge in part] == [
                edge for part in shards[0] for edge in part]
