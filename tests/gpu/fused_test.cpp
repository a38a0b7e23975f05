// Allreduces by one kernel of each rank on the real device, all ranks on one GPU: the bits of
// virtual ranks, call after call.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/gpu/allreduce_call.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

using Formats = std::vector<std::string>;

const Formats kCodes = {"paper-gl8",
                        "paper-ge8",
                        "paper-gl4",
                        "paper-ge4",
                        "relative-8",
                        "paper-gl8,rounding=correlated",
                        "paper-ge4,rounding=nearest",
                        "blocks-8",
                        "paper-gl4,block=64,rescale=true"};

/** Float32 as well, of which a kernel takes a quarter as many values. */
Formats and_floats(Formats formats) {
  formats.push_back("none");
  return formats;
}
const Formats kFormats = and_floats(kCodes);

DirectCalls usual_calls(int ranks, size_t value_count, size_t repeats,
                        const Formats& formats = kFormats) {
  return DirectCalls(gradients(ranks, value_count, 12), formats, repeats);
}

void expect_same_bits(int ranks, const DeviceCalls& calls) {
  EXPECT_EQ(run_threads(ranks, "timeout_ms=20000",
                        [&](int rank, gqsgd_comm comm) {
                          const std::string found = calls.make_and_compare(rank, comm);
                          return found.empty() ? was_fused(comm) : found;
                        }),
            "")
      << ranks << " ranks";
}

void expect_same_bits(std::initializer_list<size_t> value_counts) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const size_t value_count : value_counts) {
      expect_same_bits(ranks, usual_calls(ranks, value_count, 1));
    }
  }
}

TEST(Fused, FewValues_SameBits) { expect_same_bits({1, 33, 4097}); }

const Formats kListCodes = {"blocks-8", "paper-gl8", "paper-ge4", "relative-8",
                            "paper-gl4,block=64,rescale=true"};
const Formats kListFormats = and_floats(kListCodes);

void expect_lists(std::initializer_list<int> sizes, const std::vector<size_t>& counts,
                  const Formats& formats = kListFormats) {
  for (const int ranks : sizes) expect_same_bits(ranks, ListCalls(ranks, formats, counts));
}

/** Warps that have values of two tensors and of one; the second list is no argument of the kernel.
 */
TEST(Fused, ListsOfFewValues_SameBits) {
  expect_lists({1, 2, 3, 5}, {1000, 40, 1000, 0, 1, 515, 31, 33, 0});
  std::vector<size_t> many;
  for (size_t k = 0; k < 70; ++k) many.push_back(k * k % 71);
  expect_lists({2}, many);
}

TEST(Fused, ListsOfManyValues_SameBits) {
  expect_lists({4}, {1 << 20, 4096, 300000, 3, 1 << 20}, kListCodes);
  expect_lists({4}, {1 << 18, 4096, 300000, 3, 1 << 18}, {"none"});
}

TEST(Fused, VirtualRanks_SameBits) { expect_same_bits({70001}); }

TEST(Fused, ManyValues_SameBits) {
  expect_same_bits(4, usual_calls(4, 6553600, 1, kCodes));  // 25 MiB of float32
  expect_same_bits(4, usual_calls(4, size_t{1} << 21, 1, {"none"}));
}

TEST(Fused, SpecialValues_SameBits) {
  for (const int ranks : {2, 5}) {
    for (const Special special : kSpecials) {
      expect_same_bits(ranks, DirectCalls(special_inputs(ranks, 9001, special), kFormats, 2));
    }
  }
}

/** Other tensors than those with the values keep their norms. */
TEST(Fused, SpecialValuesOfLists_SameBits) {
  const std::vector<size_t> counts = {70, 5, 3000, 600, 0, 1025};
  for (const Special special : kSpecials) {
    expect_same_bits(3, ListCalls(special_inputs(3, total_of(counts), special), kListFormats,
                                  counts));
  }
}

/** Hundreds of calls without a wait. */
TEST(Fused, CallAfterCall_SameBits) {
  for (const int ranks : {2, 8}) expect_same_bits(ranks, usual_calls(ranks, 20001, 40));
}

/** Rank 1's host makes its call late; streams are not held up, and nothing is given up. */
TEST(Fused, LateHosts_WaitedFor) {
  const DirectCalls calls = usual_calls(2, 5001, 1);
  EXPECT_EQ(run_threads(2, "timeout_ms=20000",
                        [&](int rank, gqsgd_comm comm) {
                          std::this_thread::sleep_for(std::chrono::milliseconds(300 * rank));
                          return calls.make_and_compare(rank, comm);
                        }),
            "");
}

}  // namespace
}  // namespace gq::test
