// Results lie where the format allows them to lie. For each element the bound is exact: the lowest
// and the highest value that the roundings of docs/FORMAT.md can make of the inputs, whatever the
// random words. In steps of one rank (norm / s for linear levels) that is less than n for the sum
// over a linear ring and less than 2 n for the direct schedule.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "tests/support/law.h"
#include "tests/support/operation.h"

namespace gq::test {
namespace {

/** What the C ABI may return for one element, as a sum over ranks. */
struct Interval {
  double lowest;
  double highest;
};

Interval support_of(const Law& law) { return {law.lowest(), law.highest()}; }

/** The wide sum lies between the sums of the levels below and above; its re-encode between the
 * levels below the one and above the other. */
Interval exponential_direct_support(const std::vector<double>& values, double norm) {
  const double rank_count = static_cast<double>(values.size());
  const double unit = norm * 0x1p-126;  // the smallest level, as code 127 stands for the norm
  Interval sum{0, 0};
  for (double value : values) {
    const Law level = exponential_level(value / unit);
    sum.lowest += level.lowest();
    sum.highest += level.highest();
  }
  const double wide_unit = unit * rank_count;
  return {wide_unit * exponential_level(sum.lowest / rank_count).lowest(),
          wide_unit * exponential_level(sum.highest / rank_count).highest()};
}

Interval support_for(const Operation& operation, const std::vector<double>& values, double norm,
                     size_t first_rank) {
  const bool is_ring = operation.schedule == GQSGD_SCHEDULE_RING;
  if (operation.quantizer == "paper-gl8") {
    return support_of(is_ring ? linear_ring(values, norm) : linear_direct(values, norm));
  }
  return is_ring ? support_of(exponential_ring(values, norm, first_rank))
                 : exponential_direct_support(values, norm);
}

/** Float32 arithmetic on the way: 2^-23 for each of the few products (the scaling to levels and
 * back), relative to the norm for linear levels, where an error of t moves the code, to the values
 * otherwise. FLT_TRUE_MIN pays for results that are denormal. */
double slack_of(const Operation& operation, const std::vector<double>& values, double norm) {
  double magnitude = 0;
  for (double value : values) magnitude += std::fabs(value);
  const double per_rank = operation.quantizer == "paper-gl8" ? norm : 0;
  const double rank_count = static_cast<double>(values.size());
  return 0x1p-21 * (magnitude + rank_count * per_rank) + 2 * rank_count * FLT_TRUE_MIN;
}

void expect_within_bound(const Operation& operation, const std::vector<Values>& inputs) {
  const size_t value_count = inputs[0].size();
  const Values result = simulate(operation, inputs);
  const double norm = norm_of(inputs);
  const double divisor = operation.op == GQSGD_MEAN ? static_cast<double>(inputs.size()) : 1.0;
  for (size_t e = 0; e < value_count; ++e) {
    std::vector<double> values;
    for (const Values& input : inputs) values.push_back(input[e]);
    const size_t first_rank = ring_start(e, value_count, inputs.size());
    const Interval support = support_for(operation, values, norm, first_rank);
    const double slack = slack_of(operation, values, norm);
    const double sum = result[e] * divisor;
    ASSERT_TRUE(support.lowest - slack <= sum && sum <= support.highest + slack)
        << describe(operation) << ", " << inputs.size() << " ranks, value " << e << " of "
        << value_count << ": sum " << sum << " is not in [" << support.lowest << ", "
        << support.highest << "]";
  }
}

class ErrorBound : public testing::TestWithParam<int> {};

TEST_P(ErrorBound, EveryResultIsOneThatTheRoundingsCanMake) {
  for (size_t value_count : {1, 33, 129, 1000}) {
    const auto inputs = gradients(GetParam(), value_count, 300 + value_count);
    for (const char* preset : {"paper-gl8", "paper-ge8"}) {
      for (int32_t schedule : kSchedules) {
        for (int32_t op : {GQSGD_MEAN, GQSGD_SUM}) {
          expect_within_bound({preset, schedule, op, false, value_count}, inputs);
        }
      }
    }
  }
}

/** Adds float32 numbers in the order of the ring or of the ranks, one rounding each. */
float exact_none(const Operation& operation, const std::vector<Values>& inputs, size_t e) {
  const size_t rank_count = inputs.size();
  const bool is_ring = operation.schedule == GQSGD_SCHEDULE_RING;
  const size_t first_rank = is_ring ? ring_start(e, inputs[0].size(), rank_count) : 0;
  float sum = inputs[first_rank][e];
  for (size_t hop = 1; hop < rank_count; ++hop) sum += inputs[(first_rank + hop) % rank_count][e];
  return operation.op == GQSGD_MEAN ? sum / static_cast<float>(rank_count) : sum;
}

TEST_P(ErrorBound, NoneIsTheFloat32SumInScheduleOrder) {
  const auto inputs = gradients(GetParam(), 1000, 400);
  for (int32_t schedule : kSchedules) {
    for (int32_t op : {GQSGD_MEAN, GQSGD_SUM}) {
      const Operation operation{"none", schedule, op};
      Values expected(1000);
      for (size_t e = 0; e < expected.size(); ++e) expected[e] = exact_none(operation, inputs, e);
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
    for (const char* preset : {"paper-gl8", "paper-ge8"}) {
      for (int32_t schedule : kSchedules) {
        SCOPED_TRACE("scale " + std::to_string(std::log10(scale)));
        expect_within_bound({preset, schedule, GQSGD_MEAN}, inputs);
      }
    }
  }
}

}  // namespace
}  // namespace gq::test
