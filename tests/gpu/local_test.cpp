// Threads of one process on memory of the real device, all on one GPU: the bits of virtual ranks.
#include <gtest/gtest.h>

#include "tests/gpu/allreduce_call.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

void expect_same_bits(int ranks, const DeviceCalls& calls, const std::string& options) {
  EXPECT_EQ(
      run_threads(ranks, options,
                  [&](int rank, gqsgd_comm comm) { return calls.make_and_compare(rank, comm); }),
      "")
      << ranks << " ranks, " << options;
}

void expect_same_bits(int ranks, const std::vector<std::string>& formats, size_t value_count,
                      const std::string& options) {
  expect_same_bits(ranks, DeviceCalls(ranks, formats, value_count), options);
}

const std::vector<std::string> kFormats = {
    "paper-gl8",         "paper-ge8",   "paper-gl4",  "paper-ge4",          "none",
    "blocks-8",          "rotated-4-8", "relative-8", "paper-gl8,block=32", "paper-ge8,norm=2:2",
    "paper-gl4,norm=2:2",  // of which few are not zero
    "adaptive-4",        "rice-4"};

void expect_same_bits(std::initializer_list<size_t> value_counts) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const size_t value_count : value_counts) {
      expect_same_bits(ranks, kFormats, value_count, "timeout_ms=60000");
    }
  }
}

TEST(Local, FewValues_SameBits) { expect_same_bits({1, 33, 1029}); }

TEST(Local, VirtualRanks_SameBits) { expect_same_bits({70001}); }

TEST(Local, Chunks_SameBits) {
  for (const int ranks : {2, 3, 8}) {
    expect_same_bits(ranks, kFormats, 70001, "timeout_ms=60000,chunk_value_count=4096");
  }
}

TEST(Local, SpecialValues_SameBits) {
  for (const int ranks : {2, 5}) {
    for (const Special special : kSpecials) {
      expect_same_bits(ranks, DeviceCalls(special_inputs(ranks, 5001, special), kFormats),
                       "timeout_ms=60000");
    }
  }
}

TEST(Local, NodesOfDifferentSizes_SameBits) {
  const std::vector<std::string> formats = {"blocks-8",   "relative-8", "paper-ge4",
                                            "adaptive-4", "rice-4",     "none"};
  for (const int ranks : {3, 5}) {
    const std::vector<int32_t> nodes = uneven_nodes(ranks);
    expect_same_bits(ranks, NodeCalls(nodes, formats, 20001),
                     "timeout_ms=60000," + nodes_option(nodes));
  }
}

TEST(Local, ManyValues_SameBits) {
  expect_same_bits(4, {"paper-gl8", "paper-ge4", "blocks-8", "adaptive-5"}, 9000001,
                   "timeout_ms=60000");
}

}  // namespace
}  // namespace gq::test
