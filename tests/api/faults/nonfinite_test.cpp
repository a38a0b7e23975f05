// NaN, infinities and other values that are hard on a quantizer, with both policies.
#include <cfloat>
#include <cmath>
#include <limits>

#include "tests/api/faults/support/call.h"

namespace gq::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/** One norm per call: one block. */
const Change kPoison = [](Call& call) { call.use("paper-gl8"); };
const Change kError = [](Call& call) { call.use("paper-gl8,nonfinite=error"); };

TEST(Nonfinite, Error_NamesRankCountAndFirstIndexOnAllRanks) {
  Group group(3);
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    for (const size_t place : {size_t{0}, size_t{511}, kCallValues - 1}) {
      const GroupOutcome outcome = group.call(
          2, [&](Call& call) { call.input[place] = bad; }, kError);
      for (const Outcome& rank : outcome.ranks) {
        EXPECT_TRUE(is(rank, GQSGD_NONFINITE,
                       "rank 2 has 1 values that are NaN or infinite, the first at index " +
                           std::to_string(place)));
      }
      EXPECT_TRUE(outcome.all_untouched);
    }
  }
  EXPECT_TRUE(group.still_works());
}

TEST(Nonfinite, Poison_BlockIsNanOnAllRanks_Counted) {
  Group group(3);
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    for (const size_t place : {size_t{0}, kCallValues - 1}) {
      const GroupOutcome outcome = group.call(
          1, [&](Call& call) { call.input[place] = bad; }, kPoison);
      for (const Outcome& rank : outcome.ranks) EXPECT_TRUE(is_ok(rank));
    }
  }
  for (int rank = 0; rank < 3; ++rank) {
    uint64_t blocks = 0;
    EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_stat(group.comm(rank), "nonfinite_blocks", &blocks))));
    EXPECT_EQ(blocks, 6u);
  }
  EXPECT_TRUE(group.still_works());
}

/** The mean over one rank, which is quantised like any other number of ranks. */
Values mean_of(const Values& input, const char* quantizer) {
  Group group(1);
  Call call(0);
  call.use(quantizer);
  call.input = input;
  call.input.resize(kCallValues, 0.0f);
  call.send = call.input.data();
  EXPECT_TRUE(is_ok(call.make(group.comm(0))));
  return call.result;
}

class HardValues : public testing::TestWithParam<const char*> {};

// Near the largest finite number: codes of the norm are certain, so the result is it, to an ulp.
TEST_P(HardValues, HugeFiniteNumbers_StayFinite) {
  const float huge = 0.99f * FLT_MAX;
  const Values result = mean_of({huge, -huge}, GetParam());
  EXPECT_NEAR(result[0] / huge, 1.0, 0x1p-23);
  EXPECT_EQ(result[1], -result[0]);
}

TEST_P(HardValues, Denormals_NotFlushed) {
  const float denormal = 127 * 64 * FLT_TRUE_MIN;
  const Values result = mean_of({denormal, -denormal}, GetParam());
  EXPECT_EQ(result[0], denormal);
  EXPECT_EQ(result[1], -denormal);
}

TEST_P(HardValues, Zeros_ExactAndPositive) {
  for (const float value : mean_of({0.0f, -0.0f}, GetParam())) {
    EXPECT_EQ(value, 0.0f);
    EXPECT_FALSE(std::signbit(value));
  }
}

TEST_P(HardValues, OneHugeValue_RestBoundedAndOfItsSign) {
  Values input(kCallValues, -1e-6f);
  input[500] = 1e6f;
  const Values result = mean_of(input, GetParam());
  EXPECT_EQ(result[500], 1e6f);
  for (size_t e = 0; e < kCallValues; ++e) {
    if (e == 500) continue;
    ASSERT_LE(result[e], 0.0f) << e;
    ASSERT_GE(result[e], -1e6f / 127 * 1.0001f) << e;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, HardValues, testing::Values("paper-gl8", "paper-ge8"),
                         [](const auto& info) {
                           return std::string(info.param) == "paper-gl8" ? "linear" : "exponential";
                         });

}  // namespace
}  // namespace gq::test
