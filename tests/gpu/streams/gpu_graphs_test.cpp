// The checks of tests/gpu/fused_graphs_test.cpp where there is no GPU, so that they are right when
// they meet one.
#include <gtest/gtest.h>

#include "tests/gpu/graph_ranks.h"
#include "tests/gpu/streams/graph_of_host.h"
#include "tests/support/host_device/host_fused.h"

namespace gq::test {
namespace {

GraphRanks ranks_on_the_double(int ranks) {
  return {[] { return std::make_unique<GraphOfHost>(); }, ranks};
}

TEST(GpuGraphs, WrongBits_Reported) {
  const UseHostDevice device;
  EXPECT_EQ(ranks_on_the_double(1).check_bits("relative-8", 33, false), "");
  EXPECT_EQ(ranks_on_the_double(4).check_bits("blocks-8", 20001, true), "");
  EXPECT_EQ(ranks_on_the_double(3).check_hosts_apart("paper-gl8", 9001), "");
}

TEST(GpuGraphs, KernelCounts_Checked) {
  const UseHostDevice device;
  const std::string found = ranks_on_the_double(2).check_bits("rotated-8", 3000, false);
  EXPECT_NE(found.find("hosts of this group synchronize"), std::string::npos) << found;
}

TEST(GpuGraphs, End_Checked) {
  const UseHostDevice device;
  EXPECT_EQ(ranks_on_the_double(3).check_lost_replay(), "");
  set_fused_queues(8);
  EXPECT_EQ(ranks_on_the_double(5).check_refusal(), "");
  EXPECT_NE(ranks_on_the_double(4).check_refusal(), "");
  set_fused_queues(kFusedQueues);
}

}  // namespace
}  // namespace gq::test
