// Fused allreduces of lists of tensors: they have the bits of virtual ranks.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/gpu/ptx/fused/fused_ranks.h"

namespace gq::test {
namespace {

/** Lists of tensors: shorter than a block of norms, without values, across tiles and shards, of the
 *  length of a tile; more than are arguments of a kernel. */
std::vector<std::vector<size_t>> lists() {
  std::vector<size_t> many;
  for (size_t k = 0; k < 300; ++k) many.push_back(k * k % 71);
  return {{1000, 5000},
          {1},
          {0, 0, 1, 0},
          {1, 1, 1, 33, 31, 32},
          {4096, 4096, 4097, 0, 4095, 0},
          {128, 10000, 0, 3, 257, 12001, 1},
          many};
}

std::vector<Operation> list_calls(const std::vector<std::string>& formats) {
  std::vector<Operation> calls = calls_of(formats, formats.size() * lists().size());
  for (size_t k = 0; k < calls.size(); ++k) calls[k].counts = lists()[k / formats.size()];
  return calls;
}

const std::vector<std::string> kListFormats = {"paper-gl8",
                                               "paper-ge4,rounding=correlated",
                                               "blocks-8",
                                               "relative-8",
                                               "levels=linear,bits=4,block=32,rescale=true",
                                               "paper-gl8,block=8192,rescale=true",
                                               "none"};

TEST(Fused, ListOfTensors_SameBits) {
  for (const uint32_t ranks : {3, 1}) {
    FusedRanks group(ranks, 3);
    EXPECT_EQ(make_calls(&group, list_calls(kListFormats), {0}, ranks), "") << ranks << " ranks";
  }
}

/** Norms of each call are smaller than those of the one before, whose words it must not find. */
TEST(Fused, SmallerNorms_SameBits) {
  FusedRanks group(3, 2, UINT32_MAX - 4);
  std::vector<Operation> calls = calls_of({"paper-gl8", "paper-gl8", "paper-gl8", "blocks-8"}, 12);
  std::vector<float> factors;
  for (size_t k = 0; k < calls.size(); ++k) {
    factors.push_back(std::ldexp(1.0f, -static_cast<int>(k)));
    if (k % 7 != 5) calls[k].counts = std::vector<size_t>(12 - k, 700);
  }
  EXPECT_EQ(make_calls(&group, calls, {500}, 1, factors), "");
}

}  // namespace
}  // namespace gq::test
