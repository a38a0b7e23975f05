// Broken schedules: each check of world.h fails on a schedule that breaks its rule.
#include <gtest/gtest.h>

#include "src/schedule/nodes.h"
#include "src/schedule/norms.h"
#include "tests/unit/schedule/closed_form.h"
#include "tests/unit/schedule/world.h"
#include "tools/plan/schedules.h"

namespace gq {
namespace {

Violations walk(const Schedule& schedule, uint32_t ranks) {
  World world(schedule, Shape{ranks, 1000, 32, 64});
  return walk(&world, Turns::random, 1);
}

Violations walk_with_norms(const Schedule& schedule, uint32_t ranks) {
  World world(schedule, Shape{ranks, 1000, 32, 64, true});
  return walk(&world, Turns::random, 1);
}

TEST(Mutation, ScheduleItself_NothingFound) {
  EXPECT_EQ(walk(kRing, 4).text(), "");
  EXPECT_EQ(walk(kTree, 4).text(), "");
  EXPECT_EQ(walk_with_norms(kDirect, 4).text(), "");
}

TEST(Mutation, UnalignedRange_Found) {
  Schedule broken = kRing;
  broken.round = [](const Shape& shape, uint32_t rank, uint64_t round) {
    Round odd = kRing.round(shape, rank, round);
    odd.first_value += 8;
    return odd;
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::range));
}

TEST(Mutation, RangeBeyondTheCall_Found) {
  Schedule broken = kRing;
  broken.round = [](const Shape& shape, uint32_t rank, uint64_t round) {
    Round wide = kRing.round(shape, rank, round);
    wide.value_count += 32;
    return wide;
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::range));
}

TEST(Mutation, RankSendsToItself_Found) {
  Schedule broken = kRing;
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    Move move = kRing.move(shape, rank, round, index);
    if (move.kind == MoveKind::send) move.peer = rank;
    return move;
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::range));
}

TEST(Mutation, EndsHaveDifferentRanges_Found) {
  Schedule broken = kRing;
  broken.round = [](const Shape& shape, uint32_t rank, uint64_t round) {
    const bool other_part = rank == 2 && round == shape.ranks;  // the first result
    return kRing.round(shape, rank, other_part ? round + 1 : round);
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::message));
}

TEST(Mutation, MessageNeverReceived_Found) {
  Schedule broken = kRing;
  broken.round_count = [](const Shape& shape, uint32_t rank) {
    return kRing.round_count(shape, rank) - (rank == 0 ? 1 : 0);
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::message));
}

TEST(Mutation, RanksReceiveBeforeTheySend_Found) {
  Schedule broken = kRing;
  broken.round = [](const Shape& shape, uint32_t rank, uint64_t round) {
    return kRing.round(shape, rank, round < 2 ? 1 - round : round);
  };
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    return kRing.move(shape, rank, round < 2 ? 1 - round : round, index);
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::deadlock));
}

TEST(Mutation, ForwardedResultNamedAsOwnWords_Found) {
  Schedule broken = kRing;
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    Move move = kRing.move(shape, rank, round, index);
    if (move.kind == MoveKind::send) move.origin = rank;
    return move;
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::unknown_words));
}

TEST(Mutation, SendBeforeTheReductionOfTheSameWords_Found) {
  Schedule broken = kRing;
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    const bool reduces = round > 0 && round < shape.ranks && (index == 2 || index == 3);
    return kRing.move(shape, rank, round, reduces ? 5 - index : index);
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::written_after_sent));
}

TEST(Mutation, OperandNotReducedBeforeTheNext_Found) {
  Schedule broken = kRing;
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    const Move move = kRing.move(shape, rank, round, index);
    return rank == 2 && move.kind == MoveKind::reduce ? quantize_move() : move;
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::landing));
  EXPECT_TRUE(walk(broken, 4).has(Rule::quantized));  // twice
}

TEST(Mutation, PartialSumTakenForTheResult_Found) {
  Schedule broken = kRing;
  broken.round = [](const Shape& shape, uint32_t rank, uint64_t round) {
    Round longer = kRing.round(shape, rank, round);
    if (round == 0) ++longer.move_count;
    return longer;
  };
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    const bool mutation = round == 0 && index == 2;
    return mutation ? dequantize_move(rank) : kRing.move(shape, rank, round, index);
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::contribution));
}

TEST(Mutation, RankMergedTwice_Found) {
  Schedule broken = kTree;  // of two ranks: the child sends its codes twice
  broken.round = [](const Shape& shape, uint32_t rank, uint64_t round) {
    Round longer = kTree.round(shape, rank, round);
    if (round % 2 == 0) longer.move_count = rank == 0 ? 5 : 3;
    return longer;
  };
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    const uint32_t last = rank == 0 ? 2 : 1;
    const bool again = round % 2 == 0 && index > last;
    return kTree.move(shape, rank, round, again ? index - last : index);
  };
  EXPECT_TRUE(walk(broken, 2).has(Rule::contribution));
}

TEST(Mutation, WeightCountsOneRankTooMany_Found) {
  Schedule broken = kTree;
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    Move move = kTree.move(shape, rank, round, index);
    move.weight_b += move.hop == 2;
    return move;
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::weight));
}

TEST(Mutation, SameHopForAllReductions_Found) {
  Schedule broken = kTree;
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    Move move = kTree.move(shape, rank, round, index);
    move.hop = 1;
    return move;
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::random_words));
}

TEST(Mutation, ChainLongerThanReductionDepth_Found) {
  Schedule broken = kRing;
  broken.reduction_depth = [](uint32_t ranks) { return ceil_log2(ranks); };
  EXPECT_TRUE(walk(broken, 4).has(Rule::chain));
}

TEST(Mutation, ValuesNeverQuantized_Found) {
  Schedule broken = kDirect;
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    const Move move = kDirect.move(shape, rank, round, index);
    return rank == 1 && move.kind == MoveKind::quantize ? dequantize_move(rank) : move;
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::quantized));
}

TEST(Mutation, ValuesNeverDequantized_Found) {
  Schedule broken = kRing;  // the last result is received and left
  broken.round = [](const Shape& shape, uint32_t rank, uint64_t round) {
    Round shorter = kRing.round(shape, rank, round);
    if (round + 1 == kRing.round_count(shape, rank)) --shorter.move_count;
    return shorter;
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::dequantized));
}

TEST(Mutation, ValuesDequantizedTwice_Found) {
  Schedule broken = kRing;
  broken.round = [](const Shape& shape, uint32_t rank, uint64_t round) {
    Round longer = kRing.round(shape, rank, round);
    if (round + 1 == kRing.round_count(shape, rank)) ++longer.move_count;
    return longer;
  };
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    const bool last = round + 1 == kRing.round_count(shape, rank);
    return kRing.move(shape, rank, round, last ? std::min(index, 1u) : index);
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::dequantized));
}

TEST(Mutation, RanksReduceForThemselves_Found) {
  // Both sums hold both ranks, but their random words differ, and so do their bits.
  Schedule broken = kTree;
  broken.round_count = [](const Shape&, uint32_t) { return uint64_t{1}; };
  broken.round = [](const Shape& shape, uint32_t, uint64_t) {
    return Round{0, shape.value_count, 5};
  };
  broken.move = [](const Shape&, uint32_t rank, uint64_t, uint32_t index) {
    const uint32_t peer = 1 - rank;
    const Move moves[] = {quantize_move(), send_move(peer, rank), receive_operand_move(peer),
                          reduce_move(peer, 1, 1, 1), dequantize_move(rank)};
    return moves[index];
  };
  EXPECT_TRUE(walk(broken, 2).has(Rule::result));
  EXPECT_TRUE(walk(broken, 2).has(Rule::written_after_sent));
}

/** The direct schedule with one kind of moves replaced. */
template <MoveKind kKind, typename Replace>
Schedule direct_with(Replace) {
  Schedule broken = kDirect;
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    const Move move = kDirect.move(shape, rank, round, index);
    return move.kind == kKind ? Replace()(move, rank) : move;
  };
  return broken;
}

TEST(Mutation, ValuesQuantizedBeforeTheirNormsAreGlobal_Found) {
  Schedule broken = kRing;
  broken.weaves_norms = true;  // it does not
  EXPECT_TRUE(walk_with_norms(broken, 4).has(Rule::norms));
}

TEST(Mutation, NormsTakenAgainInsteadOfMerged_Found) {
  const Schedule broken = direct_with<MoveKind::merge_norms>(
      [](const Move&, uint32_t) { return of(Content::norms, take_norms_move()); });
  EXPECT_TRUE(walk_with_norms(broken, 4).has(Rule::norms));         // twice
  EXPECT_TRUE(walk_with_norms(broken, 4).has(Rule::landing));       // the operand stays
  EXPECT_TRUE(walk_with_norms(broken, 4).has(Rule::contribution));  // never global
}

TEST(Mutation, NormsSentAsCodes_Found) {
  Schedule broken = kDirect;
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    Move move = kDirect.move(shape, rank, round, index);
    if (move.kind == MoveKind::send) move.content = Content::codes;
    return move;
  };
  EXPECT_TRUE(walk_with_norms(broken, 4).has(Rule::unknown_words));
}

TEST(Mutation, SumNotAwaited_Found) {
  Schedule broken = kNative;
  broken.round = [](const Shape& shape, uint32_t rank, uint64_t round) {
    Round shorter = kNative.round(shape, rank, round);
    if (shorter.in_one_piece) shorter.move_count = 1;
    return shorter;
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::message));
  EXPECT_TRUE(walk(broken, 4).has(Rule::contribution));  // decoded without the others
}

TEST(Mutation, SumWithoutOneRank_Found) {
  Schedule broken = kNative;
  broken.round = [](const Shape& shape, uint32_t rank, uint64_t round) {
    Round none = kNative.round(shape, rank, round);
    if (none.in_one_piece && rank == 2) none.move_count = 0;
    return none;
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::deadlock));
}

TEST(Mutation, SumsOfDifferentRanges_Found) {
  Schedule broken = kNative;
  broken.round = [](const Shape& shape, uint32_t rank, uint64_t round) {
    Round shorter = kNative.round(shape, rank, round);
    if (shorter.in_one_piece && rank == 2) shorter.value_count -= 1000 % 32;
    return shorter;
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::message));
}

TEST(Mutation, SumBeforeItsCodes_Found) {
  Schedule broken = kNative;
  broken.round = [](const Shape& shape, uint32_t rank, uint64_t round) {
    return kNative.round(shape, rank, round < 2 ? 1 - round : round);
  };
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    return kNative.move(shape, rank, round < 2 ? 1 - round : round, index);
  };
  EXPECT_TRUE(walk(broken, 4).has(Rule::contribution));
}

Violations walk_nodes(const Schedule& schedule, bool encodes_down = false) {
  const Nodes nodes({0, 1, 0, 1, 1});
  World world(schedule, Shape{5, 1000, 32, 64, false, 1, nullptr, 0, &nodes, encodes_down});
  return walk(&world, Turns::random, 1);
}

TEST(Mutation, NodesWhoseSumsCountAsOneRank_Found) {
  EXPECT_EQ(walk_nodes(kHierarchical).text(), "");
  Schedule broken = kHierarchical;
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    const Move move = kHierarchical.move(shape, rank, round, index);
    const bool node = move.kind == MoveKind::reduce_many && move.addends == Addends::node;
    return rank == 0 && node ? quantize_move() : move;  // its own codes go on as the node's
  };
  EXPECT_TRUE(walk_nodes(broken).has(Rule::weight));
}

TEST(Mutation, MeansOfOneNodeSentAsCodes_Found) {
  EXPECT_EQ(walk_nodes(kHierarchical, true).text(), "");
  Schedule broken = kHierarchical;
  broken.move = [](const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
    const Move move = kHierarchical.move(shape, rank, round, index);
    const bool sends_mean = rank == 2 && move.kind == MoveKind::send && move.peer % 2 == 1;
    return sends_mean ? of(Content::codes, move) : move;
  };
  EXPECT_TRUE(walk_nodes(broken, true).has(Rule::message));
}

TEST(Mutation, RingNamedButterfly_Found) {
  const Shape shape{8, 1000, 32, 65536};
  const Totals ring = totals_of(kRing, shape, 0);
  EXPECT_NE(ring.messages_sent, closed_form("butterfly", shape, 0).messages_sent);
}

}  // namespace
}  // namespace gq
