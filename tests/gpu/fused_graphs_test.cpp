// Graphs of allreduces by one kernel of each rank on the real device, all ranks on one GPU.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/gpu/cuda_graph.h"
#include "tests/gpu/graph_ranks.h"

namespace gq::test {
namespace {

GraphRanks ranks_on_one_gpu(int ranks) {
  return {[] { return std::make_unique<CudaGraph>(); }, ranks};
}

// What eight queues are enough for.
constexpr int kRanksMax = 4;

TEST(FusedGraphs, Replays_BitsOfVirtualRanks) {
  for (int ranks = 1; ranks <= kRanksMax; ++ranks) {
    for (const char* quantizer : {"paper-gl8", "paper-ge4", "blocks-8", "relative-8", "none"}) {
      const GraphRanks checks = ranks_on_one_gpu(ranks);
      EXPECT_EQ(checks.check_bits(quantizer, 33, true), "") << ranks << " ranks";
      EXPECT_EQ(checks.check_bits(quantizer, 70001, false), "") << ranks << " ranks";
    }
  }
}

TEST(FusedGraphs, Graphs_NeedNoHostAgreement) {
  for (const int ranks : {2, kRanksMax}) {
    EXPECT_EQ(ranks_on_one_gpu(ranks).check_hosts_apart("paper-gl8", 20001), "") << ranks;
  }
}

/** Nothing but the kernels' first barrier keeps a rank from writing over sums that others read. */
TEST(FusedGraphs, ReplaysOfFewFloats_SameBits) {
  EXPECT_EQ(ranks_on_one_gpu(2).check_hosts_apart("none", 4097), "");
}

TEST(FusedGraphs, RankDoesNotReplay_Ended) {
  EXPECT_EQ(ranks_on_one_gpu(3).check_lost_replay(), "");
}

TEST(FusedGraphs, RanksShareQueues_Refused) {
  if (getenv("CUDA_DEVICE_MAX_CONNECTIONS") != nullptr) return;  // which says how many there are
  EXPECT_EQ(ranks_on_one_gpu(kRanksMax + 1).check_refusal(), "");
}

}  // namespace
}  // namespace gq::test
