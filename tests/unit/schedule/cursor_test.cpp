// Parts, and the walk over one rank's moves, which needs no other rank.
#include <gtest/gtest.h>

#include <vector>

#include "include/gqsgd.h"
#include "src/schedule/make.h"
#include "tests/unit/schedule/closed_form.h"
#include "tools/plan/schedules.h"

namespace gq {
namespace {

constexpr const Schedule* kAll[] = {&kRing, &kTree, &kButterfly, &kDirect};

TEST(PartOf, Parts_CoverTheCallInOrder_Aligned) {
  for (uint64_t alignment : {32u, 1024u}) {
    for (uint32_t part_count = 1; part_count <= 40; ++part_count) {
      for (uint64_t value_count : {0u, 1u, 31u, 32u, 33u, 1024u, 1279u, 1281u, 65537u}) {
        const Shape shape{part_count, value_count, alignment, 65536};
        uint64_t end = 0;
        for (uint32_t j = 0; j < part_count; ++j) {
          const Part part = part_of(shape, part_count, j);
          ASSERT_EQ(part.first_value, end) << part_count << ", " << value_count << ", " << j;
          ASSERT_TRUE(part.value_count == 0 || part.first_value % alignment == 0);
          end += part.value_count;
        }
        ASSERT_EQ(end, value_count) << part_count;
      }
    }
  }
}

TEST(PartOf, Length_ShareRoundedUpToAMultipleOf32) {
  const Shape shape{3, 1000, 32, 65536};  // 1000 / 3 = 333.3, and 352 is a multiple of 32
  EXPECT_EQ(part_of(shape, 3, 0).value_count, 352u);
  EXPECT_EQ(part_of(shape, 3, 1).first_value, 352u);
  EXPECT_EQ(part_of(shape, 3, 2).value_count, 1000u - 2 * 352u);
}

TEST(ScheduleByName, BuiltSchedules_KnownAndNoOther) {
  for (const Schedule* schedule : kAll) {
    EXPECT_EQ(schedule_by_name(schedule->name), schedule);
    EXPECT_EQ(schedule_by_id(schedule->id), schedule);
  }
  EXPECT_EQ(schedule_by_id(GQSGD_SCHEDULE_RING), &kRing);
  EXPECT_EQ(schedule_by_id(GQSGD_SCHEDULE_TREE), &kTree);
  EXPECT_EQ(schedule_by_id(GQSGD_SCHEDULE_BUTTERFLY), &kButterfly);
  EXPECT_EQ(schedule_by_id(GQSGD_SCHEDULE_DIRECT), &kDirect);
  EXPECT_EQ(schedule_by_id(GQSGD_SCHEDULE_SPARSE), &kSparse);
  EXPECT_EQ(schedule_by_id(GQSGD_SCHEDULE_NATIVE), &kNative);
  EXPECT_EQ(schedule_by_name("sparse"), &kSparse);
  EXPECT_EQ(schedule_by_id(GQSGD_SCHEDULE_AUTO), nullptr);
  EXPECT_EQ(schedule_by_id(-1), nullptr);
  EXPECT_EQ(schedule_by_name("auto"), nullptr);
  EXPECT_EQ(schedule_by_name(""), nullptr);
}

TEST(MoveCursor, OneRank_QuantizesAndDequantizesWithoutMessages) {
  for (const Schedule* schedule : kAll) {
    MoveCursor cursor(schedule, Shape{1, 100, 32, 64}, 0);
    std::vector<MoveKind> kinds;
    for (Move move; cursor.next(&move);) kinds.push_back(move.kind);
    using enum MoveKind;
    std::vector<MoveKind> expected = {quantize, dequantize, quantize, dequantize};
    if (schedule ==
        &kDirect) {  // in steps: the second chunk is quantized before the first is added
      expected = {quantize, quantize, reduce_many, dequantize, reduce_many, dequantize};
    }
    EXPECT_EQ(kinds, expected) << schedule->name;
  }
}

TEST(MoveCursor, End_Stays) {
  MoveCursor cursor(&kRing, Shape{3, 0, 32, 64}, 2);
  Move move;
  EXPECT_FALSE(cursor.next(&move));
  EXPECT_FALSE(cursor.next(&move));
}

TEST(MoveCursor, MessageOverSeveralOwners_OneMessageDequantizedOwnerByOwner) {
  // Rank 4 of 5 is folded: its results come from rank 0, first those made by ranks 0 and 1.
  MoveCursor cursor(&kButterfly, Shape{5, 128 * 4, 32, 65536}, 4);
  std::vector<Move> moves;
  for (Move move; cursor.next(&move);) moves.push_back(move);
  ASSERT_EQ(moves.size(), 4u + 2 * 3u);
  EXPECT_EQ(moves[4].kind, MoveKind::receive_result);
  EXPECT_EQ(moves[4].value_count, 256u);
  EXPECT_EQ(moves[4].origin_value_count, 128u);
  EXPECT_EQ(moves[7].kind, MoveKind::receive_result);
  EXPECT_EQ(moves[7].origin, 2u);
  for (uint32_t owner = 0; owner < 4; ++owner) {
    const Move& move = moves[(owner < 2 ? 5 : 6) + owner];
    EXPECT_EQ(move.kind, MoveKind::dequantize);
    EXPECT_EQ(move.origin, owner);
    EXPECT_EQ(move.origin_value_count, 0u);
    EXPECT_EQ(move.first_value, 128u * owner);
    EXPECT_EQ(move.value_count, 128u);
  }
}

TEST(MoveCursor, Terabytes_WalkedLazily_CostOfTheClosedForm) {
  for (const Schedule* schedule : kAll) {
    for (uint32_t ranks : {1u, 2u, 3u, 6u, 8u}) {
      const Shape shape{ranks, (uint64_t{1} << 40) - 5, 32, uint64_t{1} << 23};
      const Totals totals = totals_of(*schedule, shape, ranks - 1);
      const ClosedForm form = closed_form(schedule->name, shape, ranks - 1);
      EXPECT_EQ(totals.messages_sent, form.messages_sent) << schedule->name << ", " << ranks;
      EXPECT_EQ(totals.values_sent, form.values_sent) << schedule->name << ", " << ranks;
    }
  }
}

TEST(MoveCursor, OneOf100000Ranks_FewMovesPerRank) {
  constexpr uint32_t kRanks = 100000;
  const Shape shape{kRanks, uint64_t{32} * kRanks, 32, 65536};
  for (const Schedule* schedule : kAll) {
    for (uint32_t rank : {0u, 54321u, kRanks - 1}) {
      MoveCursor cursor(schedule, shape, rank);
      uint64_t move_count = 0;
      for (Move move; cursor.next(&move);) ++move_count;
      EXPECT_GT(move_count, 0u);
      EXPECT_LE(move_count, 8 * uint64_t{kRanks}) << schedule->name;
      const Totals totals = totals_of(*schedule, shape, rank);
      const ClosedForm form = closed_form(schedule->name, shape, rank);
      EXPECT_EQ(totals.messages_sent, form.messages_sent) << schedule->name << ", " << rank;
      EXPECT_EQ(totals.values_sent, form.values_sent) << schedule->name << ", " << rank;
    }
  }
}

}  // namespace
}  // namespace gq
