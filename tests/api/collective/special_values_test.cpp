// Zeros, denormals, infinities and NaN from end to end.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

class SpecialValues : public testing::TestWithParam<std::tuple<const char*, gqsgd_schedule>> {
 protected:
  bool is_quantised() const { return std::string(std::get<0>(GetParam())) != "none"; }
  Operation operation(gqsgd_op op = GQSGD_MEAN) const {
    return {std::get<0>(GetParam()), std::get<1>(GetParam()), op};
  }
};

// One norm per call makes the call one block, so one value poisons it; without codes there is no
// norm and NaN stays where the sum has it.
TEST_P(SpecialValues, ANonFiniteValueOnOneRankPoisonsItsBlockOnAll) {
  for (float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (gqsgd_op op : {GQSGD_SUM, GQSGD_MEAN}) {
      auto inputs = gradients(4, 300, 1);
      inputs[2][77] = bad;
      for (const Values& result : simulate_all(operation(op), inputs)) {
        for (size_t e = 0; e < result.size(); ++e) {
          if (is_quantised()) {
            ASSERT_EQ(bits_of(result[e]), 0x7fc00000u) << "value " << e << " for " << bad;
          } else {
            ASSERT_EQ(std::isfinite(result[e]), e != 77) << "value " << e << " for " << bad;
          }
        }
      }
    }
  }
}

TEST_P(SpecialValues, ANanIsThePatternOfTheFormat) {
  auto inputs = gradients(3, 40, 1);
  const uint32_t payload = 0xffabcdefu;
  std::memcpy(&inputs[1][3], &payload, sizeof payload);
  EXPECT_EQ(bits_of(simulate(operation(), inputs)[3]), 0x7fc00000u);
  EXPECT_EQ(bits_of(simulate(operation(GQSGD_SUM), inputs)[3]), 0x7fc00000u);
}

TEST_P(SpecialValues, ZerosStayZeros) {
  const std::vector<Values> all_zero(5, Values(130, 0.0f));
  for (float value : simulate(operation(), all_zero)) ASSERT_EQ(bits_of(value), 0u);
  auto inputs = gradients(5, 130, 3);
  for (Values& values : inputs) values[64] = values[129] = 0.0f;
  const Values result = simulate(operation(), inputs);
  EXPECT_EQ(bits_of(result[64]), 0u);
  EXPECT_EQ(bits_of(result[129]), 0u);
}

TEST_P(SpecialValues, NegativeZerosAreZeros) {
  const std::vector<Values> inputs(3, Values(65, -0.0f));
  for (float value : simulate(operation(GQSGD_SUM), inputs)) ASSERT_EQ(value, 0.0f);
}

TEST_P(SpecialValues, DenormalsOfAllRanksAddUp) {
  // Codes of the norm are certain, so the sum of three equal denormals is one of the largest level.
  const float denormal = 1000 * FLT_TRUE_MIN;
  const std::vector<Values> inputs(3, Values(65, denormal));
  double sum = 0;
  for (float value : simulate(operation(), inputs)) {
    ASSERT_GT(value, 0.0f);
    sum += value;
  }
  EXPECT_NEAR(sum / 65 / denormal, 1.0, 0.3);
}

TEST_P(SpecialValues, AMeanOfHugeNumbersIsFinite) {
  const std::vector<Values> inputs(3, Values(65, 2e38f));
  for (float value : simulate(operation(), inputs)) {
    ASSERT_EQ(std::isfinite(value), is_quantised()) << value;
  }
}

TEST_P(SpecialValues, ThreadsAndProcessesPoisonAlikeAndGoOn) {
  auto bad = gradients(3, 300, 1);
  bad[0][299] = kInfinity;
  const auto good = gradients(3, 300, 2);
  const Values poisoned = simulate(operation(), bad);
  const Values expected = simulate(operation(), good);
  const auto body = [&](int rank, gqsgd_comm comm) {
    Values result;
    std::string failure = allreduce(comm, operation(), bad[rank], &result);
    if (failure.empty()) failure = difference(result, poisoned);
    if (failure.empty()) failure = allreduce(comm, operation(), good[rank], &result);
    return failure.empty() ? difference(result, expected) : failure;
  };
  EXPECT_EQ(run_threads(3, "", body), "");
  EXPECT_EQ(run_processes(3, "", body), "");
}

INSTANTIATE_TEST_SUITE_P(Formats, SpecialValues,
                         testing::Combine(testing::ValuesIn(kPresets),
                                          testing::ValuesIn(kSchedules)),
                         [](const auto& info) {
                           std::string preset = std::get<0>(info.param);
                           std::erase(preset, '-');
                           return preset + "_" + schedule_name(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace gq::test
