// Results lie where the format allows them to lie. For each element the bound is exact: the lowest
// and the highest value that the roundings of docs/FORMAT.md can make of the inputs, whatever the
// random words. For linear levels, in steps of one rank (norm / s), the mean is off by less
// than 1 where codes are added exactly, by less than 2 in the direct schedule and by less than
// 1 + combines where reductions average. tests/support/allreduce_law.cpp is that reading of the
// format.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "tests/support/allreduce_law.h"
#include "tests/support/operation.h"

namespace gq::test {
namespace {

constexpr const char* kQuantised[] = {"paper-gl8", "paper-ge8", "paper-gl4", "paper-ge4",
                                      "levels=linear,bits=8,combine=average"};

/** Float32 arithmetic on the way: 2^-23 for each of the few products (the scaling to levels and
 *  back), relative to the norm for linear levels, where an error of t moves the code, to the values
 *  otherwise. Where results are denormal, steps and values are off by half of FLT_TRUE_MIN, and a
 *  linear value is up to 127 steps. */
double slack_of(const Operation& operation, const std::vector<Values>& inputs, double norm,
                size_t element) {
  double magnitude = 0;
  for (const Values& values : inputs) magnitude += std::fabs(values[element]);
  const double rank_count = static_cast<double>(inputs.size());
  const bool is_linear = !coding_of(operation.quantizer).is_exponential;
  const double scale = magnitude / rank_count + (is_linear ? norm : 0);
  return 0x1p-21 * scale + 127 * FLT_TRUE_MIN;
}

void expect_within_bound(const Operation& operation, const std::vector<Values>& inputs) {
  const Coding coding = coding_of(operation.quantizer);
  const Values result = simulate(operation, inputs);
  const double norm = norm_of(inputs);
  const double divisor = operation.op == GQSGD_SUM ? static_cast<double>(inputs.size()) : 1.0;
  for (size_t e = 0; e < result.size(); ++e) {
    const Law law = law_of_mean(coding, operation.schedule, inputs, norm, e);
    const double slack = slack_of(operation, inputs, norm, e);
    const double mean = result[e] / divisor;
    ASSERT_TRUE(law.lowest() - slack <= mean && mean <= law.highest() + slack)
        << describe(operation) << ", " << inputs.size() << " ranks, value " << e << " of "
        << result.size() << ": mean " << mean << " is not in [" << law.lowest() << ", "
        << law.highest() << "]";
  }
}

class ErrorBound : public testing::TestWithParam<int> {};

TEST_P(ErrorBound, EveryResultIsOneThatTheRoundingsCanMake) {
  for (size_t value_count : {1, 33, 129, 1000}) {
    const auto inputs = gradients(GetParam(), value_count, 300 + value_count);
    for (const char* preset : kQuantised) {
      for (gqsgd_schedule schedule : kSchedules) {
        for (gqsgd_op op : {GQSGD_MEAN, GQSGD_SUM}) {
          expect_within_bound({preset, schedule, op, false, value_count}, inputs);
        }
      }
    }
  }
}

/** Adds float32 numbers in the order of the schedule, one rounding each. */
float float32_sum(gqsgd_schedule schedule, const std::vector<Values>& inputs, size_t e) {
  Values sums;
  for (const Values& values : inputs) sums.push_back(values[e]);
  if (schedule == GQSGD_SCHEDULE_DIRECT) {
    for (size_t rank = 1; rank < sums.size(); ++rank) sums[0] += sums[rank];
    return sums[0];
  }
  size_t owner = 0;
  for (const Merge& merge : merges_of(schedule, sums.size(), e, inputs[0].size())) {
    sums[merge.into] += sums[merge.from];
    owner = merge.into;
  }
  return sums[owner];
}

TEST_P(ErrorBound, NoneIsTheFloat32SumInScheduleOrder) {
  const auto inputs = gradients(GetParam(), 1000, 400);
  for (gqsgd_schedule schedule : kSchedules) {
    for (gqsgd_op op : {GQSGD_MEAN, GQSGD_SUM}) {
      const Operation operation{"none", schedule, op};
      Values expected(1000);
      for (size_t e = 0; e < expected.size(); ++e) {
        expected[e] = float32_sum(schedule, inputs, e);
        if (op == GQSGD_MEAN) expected[e] /= static_cast<float>(GetParam());
      }
      EXPECT_EQ(difference(simulate(operation, inputs), expected), "") << describe(operation);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ErrorBound, testing::Range(1, 10));

TEST(ErrorBoundExtremes, TinyAndHugeNormsKeepTheBound) {
  for (float scale : {1e-44f, 1e-38f, 1e-30f, 1e30f, 5e37f}) {
    auto inputs = gradients(4, 256, 500);
    for (Values& values : inputs) {
      for (float& value : values) value *= scale;
    }
    for (const char* preset : kQuantised) {
      for (gqsgd_schedule schedule : kSchedules) {
        SCOPED_TRACE("scale " + std::to_string(std::log10(scale)));
        expect_within_bound({preset, schedule, GQSGD_MEAN}, inputs);
      }
    }
  }
}

}  // namespace
}  // namespace gq::test
