// Schedules keep links busy: while a chunk is reduced the next one is on its way. Measured against
// the busiest link or rank, below which no order of the same moves can finish.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tools/plan/schedules.h"
#include "tools/plan/timeline.h"

namespace gq {
namespace {

constexpr uint64_t kChunk = 1024;
// A reduction takes half as long as its message, and a message a third longer than its length says.
constexpr Machine kMachine{.latency = 0.3};

Shape shape_of(uint32_t ranks, uint64_t chunks) {
  return Shape{ranks, chunks * kChunk, 32, kChunk};
}

/** The longest time for which one link, or one rank's arithmetic, is at work. */
double busiest_time(const std::vector<TimedMove>& moves, uint32_t ranks) {
  std::vector<double> out(ranks), in(ranks), arithmetic(ranks);
  for (const TimedMove& timed : moves) {
    const double time = timed.end - timed.start;
    const MoveKind kind = timed.move.kind;
    if (kind == MoveKind::send) {
      out[timed.rank] += time - kMachine.latency;
      in[timed.move.peer] += time - kMachine.latency;
    } else if (kind != MoveKind::receive_operand && kind != MoveKind::receive_result) {
      arithmetic[timed.rank] += time;
    }
  }
  double busiest = 0;
  for (const auto& times : {out, in, arithmetic}) {
    busiest = std::max(busiest, *std::max_element(times.begin(), times.end()));
  }
  return busiest;
}

double time_over_busiest(const char* schedule, const Shape& shape) {
  const auto moves = timeline(*schedule_by_name(schedule), shape, kMachine);
  return finish_time(moves) / busiest_time(moves, shape.ranks);
}

TEST(Pipeline, RingAndDirect_EveryLinkBusy) {
  for (uint32_t ranks : {2u, 3u, 4u, 5u, 8u, 13u, 16u}) {
    const Shape shape = shape_of(ranks, 64 * ranks);
    EXPECT_LT(time_over_busiest("ring", shape), 1.01) << ranks;
    EXPECT_LT(time_over_busiest("direct", shape), 1.01) << ranks;
  }
}

TEST(Pipeline, DirectWithExchangeOfNorms_EveryLinkBusy) {
  for (uint32_t ranks : {2u, 3u, 4u, 5u, 8u, 13u, 16u}) {
    Shape shape = shape_of(ranks, 64 * ranks);
    shape.block_norms = true;
    EXPECT_LT(time_over_busiest("direct", shape), 1.03) << ranks;
  }
}

TEST(Pipeline, ButterflyOfAPowerOfTwo_EveryLinkBusy) {
  for (uint32_t ranks : {2u, 4u, 8u, 16u}) {
    EXPECT_LT(time_over_busiest("butterfly", shape_of(ranks, 64 * ranks)), 1.01) << ranks;
  }
}

TEST(Pipeline, Tree_LinksOfInnerRanksBusyUpAndDown) {
  for (uint32_t ranks : {2u, 3u, 4u, 5u, 8u, 13u, 16u}) {
    const Shape shape = shape_of(ranks, 256);
    EXPECT_LT(time_over_busiest("tree", shape), 1.2) << ranks;
  }
}

TEST(Pipeline, ButterflyWithFoldedRanks_UnderTwiceItsBusiestLink) {
  for (uint32_t ranks : {3u, 5u, 6u, 7u, 9u, 13u, 15u, 17u}) {
    EXPECT_LT(time_over_busiest("butterfly", shape_of(ranks, 64 * ranks)), 1.7) << ranks;
  }
}

TEST(Pipeline, OneChunkPerPart_NothingOverlaps) {
  // The same call in chunks as large as parts: each reduction now waits for its whole message.
  const uint32_t ranks = 8;
  Shape shape = shape_of(ranks, 64 * ranks);
  shape.chunk_value_count *= 64;
  EXPECT_GT(time_over_busiest("ring", shape), 1.25);  // half of the steps take 1 + 0.5
  EXPECT_GT(time_over_busiest("tree", shape), 1.5);
}

TEST(Timeline, TwoRanks_ByHand) {
  // Each rank: quantize 0.25, then its message takes 1; meanwhile it quantizes the other part. It
  // waits until 1.25, reduces until 1.75, sends its result until 2.75, dequantizes until 3.
  const Shape shape = shape_of(2, 2);
  const auto moves = timeline(*schedule_by_name("ring"), shape, Machine{});
  EXPECT_DOUBLE_EQ(finish_time(moves), 3.0);
}

}  // namespace
}  // namespace gq
