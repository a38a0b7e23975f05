// The bits of a result depend on which rank makes which reduction: docs/FORMAT.md, section 10, held
// against the moves.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "src/schedule/move.h"
#include "tools/plan/schedules.h"

namespace gq {
namespace {

constexpr uint32_t kRanksMax = 40;

/** Calls `check` for every move of that kind of every rank; each check names its own case. */
void for_each_move(const char* schedule, MoveKind kind, const Shape& shape,
                   const std::function<void(uint32_t rank, const Move& move)>& check) {
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    MoveCursor cursor(schedule_by_name(schedule), shape, rank);
    for (Move move; cursor.next(&move);) {
      SCOPED_TRACE(testing::Message() << schedule << ", " << shape.ranks << " ranks, rank " << rank
                                      << ", hop " << move.hop << ", value " << move.first_value);
      if (move.kind == kind) check(rank, move);
    }
  }
}

/** Three chunks in every part. */
Shape shape_of(uint32_t ranks, uint32_t part_count) {
  return Shape{ranks, uint64_t{96} * part_count, 32, 32};
}

uint32_t part_at(const Move& move) { return static_cast<uint32_t>(move.first_value / 96); }

TEST(Format, Ring_ReducesPartJAtRankJPlus1PlusHop) {
  for (uint32_t n = 1; n <= kRanksMax; ++n) {
    for_each_move("ring", MoveKind::reduce, shape_of(n, n), [n](uint32_t rank, const Move& move) {
      ASSERT_EQ(rank, (part_at(move) + 1 + move.hop) % n);
      ASSERT_EQ(move.peer, (rank + n - 1) % n);
      ASSERT_EQ(move.weight_a, move.hop);
      ASSERT_EQ(move.weight_b, 1u);
    });
    for_each_move("ring", MoveKind::dequantize, shape_of(n, n),
                  [](uint32_t, const Move& move) { ASSERT_EQ(move.origin, part_at(move)); });
  }
}

TEST(Format, Tree_MergesAtHopKTheRank2ToTheKMinus1Above) {
  for (uint32_t n = 1; n <= kRanksMax; ++n) {
    const Shape shape = shape_of(n, 1);
    for_each_move("tree", MoveKind::reduce, shape, [n](uint32_t rank, const Move& move) {
      const uint32_t distance = 1u << (move.hop - 1);
      ASSERT_EQ(rank % (2 * distance), 0u);
      ASSERT_EQ(move.peer, rank + distance);
      ASSERT_LT(move.peer, n);
      ASSERT_EQ(move.weight_a, std::min(distance, n - move.peer));
      ASSERT_EQ(move.weight_b, distance);
    });
    for_each_move("tree", MoveKind::dequantize, shape,
                  [](uint32_t, const Move& move) { ASSERT_EQ(move.origin, 0u); });
  }
}

TEST(Format, Butterfly_FoldsAtHop1_HalvesAtHopKPlus1) {
  for (uint32_t n = 2; n <= kRanksMax; ++n) {
    uint32_t partners = 1;
    while (2 * partners <= n) partners *= 2;
    const Shape shape = shape_of(n, partners);
    for_each_move("butterfly", MoveKind::reduce, shape,
                  [partners](uint32_t rank, const Move& move) {
                    ASSERT_LT(rank, partners);
                    if (move.hop == 1) {
                      ASSERT_EQ(move.peer, rank + partners);
                      return;
                    }
                    const uint32_t distance = partners >> (move.hop - 1);
                    ASSERT_EQ(move.peer, rank ^ distance);
                    ASSERT_EQ(part_at(move) / distance, rank / distance);
                  });
    for_each_move("butterfly", MoveKind::dequantize, shape,
                  [](uint32_t, const Move& move) { ASSERT_EQ(move.origin, part_at(move)); });
  }
}

TEST(Format, Direct_AddsPartJAtRankJAtHop1) {
  for (uint32_t n = 1; n <= kRanksMax; ++n) {
    uint64_t values = 0;
    for_each_move("direct", MoveKind::reduce_many, shape_of(n, n),
                  [&values](uint32_t rank, const Move& move) {
                    ASSERT_EQ(part_at(move), rank);
                    ASSERT_EQ(move.hop, 1u);
                    values += move.value_count;
                  });
    ASSERT_EQ(values, 96u * n);
    for_each_move("direct", MoveKind::dequantize, shape_of(n, n),
                  [](uint32_t, const Move& move) { ASSERT_EQ(move.origin, part_at(move)); });
  }
}

}  // namespace
}  // namespace gq
