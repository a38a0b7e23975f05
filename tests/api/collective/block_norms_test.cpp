// Blocks are small calls of their own: what is in one does not show in another, whichever rank it
// is on and however the call is cut.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr int kRanks = 4;
constexpr size_t kValues = 4200;  // the last block is short, whatever the length

/** A format, its schedule and the length of its blocks. */
struct Blocks {
  const char* format;
  gqsgd_schedule schedule;
  size_t length;
};

const Blocks kBlocks[] = {
    {"paper-gl8,block=32", GQSGD_SCHEDULE_RING, 32},
    {"paper-ge8,block=64,rounding=correlated", GQSGD_SCHEDULE_TREE, 64},
    {"paper-gl4,block=256", GQSGD_SCHEDULE_BUTTERFLY, 256},
    {"paper-ge4,block=32", GQSGD_SCHEDULE_DIRECT, 32},
    {"blocks-8", GQSGD_SCHEDULE_DIRECT, 128},
    {"levels=exponential,block=64,rescale=true", GQSGD_SCHEDULE_DIRECT, 64},
};

class BlockNorms : public testing::TestWithParam<Blocks> {
 protected:
  Operation operation(const char* more = "") const {
    return {std::string(GetParam().format) + more, GetParam().schedule};
  }
  /** "" if the results are equal outside the blocks of `places`. */
  std::string difference_elsewhere(Values a, Values b, const std::vector<size_t>& places) const {
    for (size_t place : places) {
      const size_t first = place / GetParam().length * GetParam().length;
      for (size_t e = first; e < std::min(first + GetParam().length, kValues); ++e) a[e] = b[e] = 0;
    }
    return difference(a, b);
  }
};

TEST_P(BlockNorms, OneRanksNanPoisonsItsBlockOnAllRanksAndNoOther) {
  const auto good = gradients(kRanks, kValues, 1);
  const Values expected = simulate(operation(), good);
  for (const std::vector<size_t>& places :
       {std::vector<size_t>{0}, {kValues - 1}, {1000, 1001, 2222}}) {
    auto bad = good;
    for (size_t place : places) {
      bad[place % kRanks][place] = place % 2 ? std::numeric_limits<float>::infinity() : NAN;
    }
    for (const Values& result : simulate_all(operation(), bad, "chunk_value_count=256")) {
      ASSERT_EQ(difference_elsewhere(result, expected, places), "");
      for (size_t place : places) {
        const size_t first = place / GetParam().length * GetParam().length;
        for (size_t e = first; e < std::min(first + GetParam().length, kValues); ++e) {
          uint32_t bits;
          std::memcpy(&bits, &result[e], sizeof bits);
          ASSERT_EQ(bits, 0x7fc00000u) << e;
        }
      }
    }
  }
}

TEST_P(BlockNorms, AHugeBlockDoesNotMakeOthersCoarser) {
  const auto inputs = gradients(kRanks, kValues, 2);
  auto huge = inputs;
  huge[1][700] = 1e30f;
  EXPECT_EQ(difference_elsewhere(simulate(operation(), huge), simulate(operation(), inputs), {700}),
            "");
}

TEST_P(BlockNorms, ZerosStayZeros) {
  auto inputs = gradients(kRanks, kValues, 3);
  for (Values& values : inputs) {
    for (size_t e = 0; e < kValues; ++e) {
      if (e % 7 == 0 || (e >= 1024 && e < 1536)) values[e] = 0;
    }
  }
  const Values result = simulate(operation(), inputs);
  for (size_t e = 0; e < kValues; ++e) {
    if (inputs[0][e] == 0 && (e % 7 == 0 || (e >= 1024 && e < 1536))) {
      uint32_t bits;
      std::memcpy(&bits, &result[e], sizeof bits);
      ASSERT_EQ(bits, 0u) << e;
    }
  }
}

TEST_P(BlockNorms, PoisonedBlocks_Counted_GroupContinues) {
  auto bad = gradients(kRanks, kValues, 1);
  const auto good = gradients(kRanks, kValues, 2);
  for (size_t place : {size_t{5}, size_t{9}, size_t{3000}}) bad[2][place] = NAN;
  const Values poisoned = simulate(operation(), bad);
  const Values expected = simulate(operation(), good);
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    Values result;
    std::string failure = allreduce(comm, operation(), bad[rank], &result);
    if (failure.empty()) failure = difference(result, poisoned);
    if (failure.empty()) failure = allreduce(comm, operation(), good[rank], &result);
    if (failure.empty()) failure = difference(result, expected);
    uint64_t blocks = 0;
    gqsgd_comm_stat(comm, "nonfinite_blocks", &blocks);
    return failure.empty() && blocks != 2 ? std::to_string(blocks) + " blocks, not 2" : failure;
  };
  EXPECT_EQ(run_threads(kRanks, "", body), "");
  EXPECT_EQ(run_processes(kRanks, "", body), "");
}

TEST_P(BlockNorms, ErrorNamesRankAndIndexInsteadOnAllRanks) {
  auto bad = gradients(kRanks, kValues, 1);
  bad[3][2500] = NAN;
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    Values result;
    const std::string failure = allreduce(comm, operation(",nonfinite=error"), bad[rank], &result);
    const std::string promised =
        "rank 3 has 1 values that are NaN or infinite, the first at index 2500";
    if (failure.find("NONFINITE") == std::string::npos) return "no NONFINITE: " + failure;
    if (failure.find(promised) == std::string::npos) return failure;
    return allreduce(comm, operation(",nonfinite=error"), Values(kValues, 1.0f), &result);
  };
  EXPECT_EQ(run_threads(kRanks, "", body), "");
}

INSTANTIATE_TEST_SUITE_P(Formats, BlockNorms, testing::ValuesIn(kBlocks), [](const auto& info) {
  return std::string(schedule_name(info.param.schedule)) + std::to_string(info.index);
});

}  // namespace
}  // namespace gq::test
