// Totals of long calls, which follow from walks of two short ones, against the walk of every move.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/schedule/nodes.h"
#include "tests/support/succeeds.h"
#include "tools/plan/schedules.h"

namespace gq {
namespace {

constexpr uint64_t kChunk = 256;

struct Case {
  const char* schedule;
  uint32_t ranks;
  uint32_t block;  ///< 0: no norms of blocks
  const Nodes* nodes = nullptr;
};

Plan plan_of(const Case& one, uint64_t value_count) {
  Format format;
  format.block = one.block;
  format.combine = Combine::average;
  Plan plan;
  PlanRequest request{&format,     schedule_by_name(one.schedule)->id, one.ranks,
                      value_count, kChunk,                             false};
  request.nodes = one.nodes;
  EXPECT_TRUE(test::succeeds(make_plan(request, &plan)));
  return plan;
}

void expect_totals_of_the_walk(const Case& one, uint64_t value_count) {
  const Plan plan = plan_of(one, value_count);
  for (uint32_t rank = 0; rank < one.ranks; ++rank) {
    SCOPED_TRACE(testing::Message()
                 << one.schedule << ", block " << one.block << ", rank " << rank << " of "
                 << one.ranks << ", " << value_count << " values");
    const Totals walked =
        totals_of(*plan.schedule, plan.shape, rank, std::max(one.block, uint32_t{1}));
    const Totals totals = totals_of(plan, rank);
    ASSERT_EQ(totals.messages_sent, walked.messages_sent);
    ASSERT_EQ(totals.values_sent, walked.values_sent);
    ASSERT_EQ(totals.norms_sent, walked.norms_sent);
    ASSERT_EQ(totals.reductions, walked.reductions);
    ASSERT_EQ(totals.largest_hop, walked.largest_hop);
  }
}

/** About so many chunks in each of `parts`, and lengths around them. */
std::vector<uint64_t> lengths(uint64_t parts) {
  std::vector<uint64_t> found = {0, 1, kChunk + 1, 130 * parts};
  for (const uint64_t chunks : {1, 2, 3, 7, 24, 101}) {
    for (const int64_t beside : {-129, -1, 0, 1, 128, 200}) {
      found.push_back(parts * chunks * kChunk + static_cast<uint64_t>(beside));
    }
  }
  return found;
}

TEST(Totals, LongCalls_ThoseOfTheWalk) {
  for (const char* schedule : {"ring", "tree", "butterfly", "direct"}) {
    for (const uint32_t ranks : {1u, 2u, 3u, 4u, 6u, 9u, 16u}) {
      for (const uint32_t block : {0u, 32u, 128u}) {
        for (const uint64_t count : lengths(ranks)) {
          expect_totals_of_the_walk({schedule, ranks, block}, count);
        }
      }
    }
  }
}

TEST(Totals, LongCallsOfNodes_ThoseOfTheWalk) {
  const Nodes nodes[] = {Nodes({0, 0, 1, 1}), Nodes({0, 0, 0, 1, 1}), Nodes({0, 1, 0, 2, 0, 1})};
  for (const Nodes& one : nodes) {
    uint32_t ranks = 0;
    for (uint32_t node = 0; node < one.count(); ++node) ranks += one.size_of(node);
    for (const uint32_t block : {0u, 128u}) {
      for (const uint64_t count : lengths(uint64_t{ranks} * one.count() * one.part_count())) {
        expect_totals_of_the_walk({"hierarchical", ranks, block, &one}, count);
      }
    }
  }
}

TEST(Totals, SixteenTerabytes_AtOnce) {
  for (const char* schedule : {"ring", "tree", "butterfly", "direct"}) {
    const Plan plan = plan_of({schedule, 16, 0}, uint64_t{1} << 44);
    uint64_t values_sent = 0;
    for (uint32_t rank = 0; rank < 16; ++rank) values_sent += totals_of(plan, rank).values_sent;
    EXPECT_EQ(values_sent, uint64_t{30} << 44) << schedule;
  }
}

}  // namespace
}  // namespace gq
