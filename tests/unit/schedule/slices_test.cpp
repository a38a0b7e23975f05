// Schedules of slices for any lengths: both ends of every pair of ranks list the same messages, the
// walk of all ranks ends, and every value is quantized, added and written as often as it must be.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "src/schedule/move.h"
#include "tools/plan/schedules.h"

namespace gq {
namespace {

/** Slices of mixed lengths, some of them empty, each from a multiple of 32 on. */
std::vector<Part> slices_of(uint32_t ranks, uint32_t salt) {
  const uint64_t lengths[] = {0, 1, 32, 33, 64, 200, 1000, 31};
  std::vector<Part> slices;
  uint64_t first = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const uint64_t length = lengths[(rank * 5 + salt) % 8];
    slices.push_back({first, length});
    first += (length + 31) / 32 * 32;
  }
  return slices;
}

Shape shape_of(const std::vector<Part>& slices, bool block_norms) {
  Shape shape;
  shape.ranks = static_cast<uint32_t>(slices.size());
  shape.chunk_value_count = 64;
  shape.block_norms = block_norms;
  shape.slices = slices.data();
  for (const Part& slice : slices) {
    shape.value_count = slice.first_value + slice.value_count;
    shape.slice_value_count_max = std::max(shape.slice_value_count_max, slice.value_count);
  }
  return shape;
}

/** Walks one rank after the other, each until it has to wait. */
class Walk {
 public:
  Walk(const Schedule& schedule, const Shape& shape) : shape_(shape) {
    for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
      cursors_.emplace_back(&schedule, shape, rank);
      moves_.emplace_back();
      left_.push_back(cursors_.back().next(&moves_.back()));
    }
    for (bool speculative = true; speculative;) {
      speculative = false;
      for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
        while (left_[rank] && make(rank, moves_[rank])) {
          left_[rank] = cursors_[rank].next(&moves_[rank]);
          speculative = true;
        }
      }
    }
  }

  bool has_ended() const {
    for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
      if (left_[rank]) return false;
    }
    for (const auto& channel : channels_) {
      if (!channel.second.empty()) return false;
    }
    return true;
  }
  /** Times that `rank` made moves of a kind on a value. */
  uint32_t count(uint32_t rank, MoveKind kind, uint64_t value) const {
    const auto found = counts_.find({{rank, kind}, value});
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  using Sent = std::pair<std::pair<uint64_t, uint64_t>, Content>;

  bool make(uint32_t rank, const Move& move) {
    const Sent message{{move.first_value, move.value_count}, move.content};
    if (move.kind == MoveKind::send) channels_[{rank, move.peer}].push_back(message);
    if (move.kind == MoveKind::receive_operand || move.kind == MoveKind::receive_result) {
      auto& channel = channels_[{move.peer, rank}];
      if (channel.empty()) return false;
      EXPECT_EQ(channel.front(), message) << "from rank " << move.peer << " to " << rank;
      channel.pop_front();
    }
    EXPECT_LE(move.value_count, shape_.chunk_value_count);
    EXPECT_GT(move.value_count, 0u);
    for (uint64_t e = 0; e < move.value_count; ++e) {
      ++counts_[{{rank, move.kind}, move.first_value + e}];
    }
    return true;
  }

  Shape shape_;
  std::vector<MoveCursor> cursors_;
  std::vector<Move> moves_;
  std::vector<bool> left_;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<Sent>> channels_;
  std::map<std::pair<std::pair<uint32_t, MoveKind>, uint64_t>, uint32_t> counts_;
};

void expect_right(const Schedule& schedule, const std::vector<Part>& slices, bool block_norms) {
  const Shape shape = shape_of(slices, block_norms);
  const Walk walk(schedule, shape);
  ASSERT_TRUE(walk.has_ended()) << schedule.name << ", " << shape.ranks << " ranks";
  const bool gathers = &schedule == &kAllgather;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    for (uint32_t owner = 0; owner < shape.ranks; ++owner) {
      const uint32_t own = rank == owner ? 1 : 0;
      for (uint64_t e = 0; e < slices[owner].value_count; ++e) {
        const uint64_t value = slices[owner].first_value + e;
        ASSERT_EQ(walk.count(rank, MoveKind::quantize, value), gathers ? own : 1);
        ASSERT_EQ(walk.count(rank, MoveKind::dequantize, value), gathers ? 1 : own);
        ASSERT_EQ(walk.count(rank, MoveKind::reduce_many, value), gathers ? 0 : own);
        const uint32_t normed = gathers ? own : 1;
        ASSERT_EQ(walk.count(rank, MoveKind::norm, value), block_norms ? normed : 0);
      }
    }
  }
}

TEST(SliceSchedules, AnySlices_EveryValueServedOnce) {
  for (const Schedule* schedule : {&kReduceScatter, &kAllgather}) {
    for (const uint32_t ranks : {1u, 2u, 3u, 4u, 7u, 12u}) {
      for (uint32_t salt = 0; salt < 8; ++salt) {
        for (const bool block_norms : {false, true}) {
          expect_right(*schedule, slices_of(ranks, salt), block_norms);
        }
      }
    }
  }
}

TEST(SliceSchedules, AnySlices_LeastBytes) {
  const std::vector<Part> slices = slices_of(7, 3);
  const Shape shape = shape_of(slices, false);
  uint64_t all = 0;
  for (const Part& slice : slices) all += slice.value_count;
  for (uint32_t rank = 0; rank < 7; ++rank) {
    const uint64_t own = slices[rank].value_count;
    EXPECT_EQ(totals_of(kReduceScatter, shape, rank).values_sent, all - own);
    EXPECT_EQ(totals_of(kAllgather, shape, rank).values_sent, 6 * own);
  }
}

}  // namespace
}  // namespace gq
