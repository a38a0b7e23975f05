// No sum overflows: all ranks at the largest magnitude, for as many ranks as the format takes.
#include <gqsgd_model.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr int kMostLinearRanks = 127;  // floor(127 / n) levels, of which at least one must be left
constexpr int kMostRanks = 130;

std::vector<Values> all_at(float value, int rank_count, size_t value_count) {
  return std::vector<Values>(rank_count, Values(value_count, value));
}

float ulp(float value) { return std::nextafter(std::fabs(value), INFINITY) - std::fabs(value); }

constexpr gqsgd_schedule kAll[] = {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_TREE,
                                   GQSGD_SCHEDULE_BUTTERFLY, GQSGD_SCHEDULE_DIRECT,
                                   GQSGD_SCHEDULE_HIERARCHICAL};

/** Sums of nodes are weighted where nodes are uneven. */
std::string options_for(gqsgd_schedule schedule, int rank_count) {
  const bool has_nodes = schedule == GQSGD_SCHEDULE_HIERARCHICAL;
  return has_nodes ? nodes_option(uneven_nodes(rank_count)) : "";
}

Values mean_of(const Operation& operation, const std::vector<Values>& inputs) {
  return simulate(operation, inputs,
                  options_for(operation.schedule, static_cast<int>(inputs.size())));
}

class NoOverflow : public testing::TestWithParam<gqsgd_schedule> {};

TEST_P(NoOverflow, LinearMeanAtTheMaximumIsRightToOneUlpOfTheNorm) {
  for (int rank_count = 1; rank_count <= kMostLinearRanks; ++rank_count) {
    for (float value : {1.0f, -0.7f, 3.4e38f}) {
      const Operation operation{"paper-gl8", GetParam()};
      for (float mean : mean_of(operation, all_at(value, rank_count, 67))) {
        ASSERT_NEAR(mean, value, std::fmin(ulp(value), FLT_MAX * FLT_EPSILON))
            << describe(operation) << ", " << rank_count << " ranks";
      }
    }
  }
}

TEST_P(NoOverflow, LinearSumAtTheMaximumIsRightToOneUlpOfTheSum) {
  for (int rank_count = 1; rank_count <= kMostLinearRanks; ++rank_count) {
    for (float value : {1.0f, -1.0f}) {
      const Operation operation{"paper-gl8", GetParam(), GQSGD_SUM};
      const float expected = value * static_cast<float>(rank_count);
      for (float sum : mean_of(operation, all_at(value, rank_count, 67))) {
        ASSERT_NEAR(sum, expected, ulp(expected))
            << describe(operation) << ", " << rank_count << " ranks";
      }
    }
  }
}

TEST_P(NoOverflow, LinearExtremesOfBothSignsCancelToTheStep) {
  for (int rank_count = 2; rank_count <= kMostLinearRanks; ++rank_count) {
    auto inputs = all_at(1.0f, rank_count, 67);
    for (int rank = 0; rank < rank_count; rank += 2) inputs[rank].assign(67, -1.0f);
    const double exact = rank_count % 2 == 0 ? 0.0 : -1.0 / rank_count;
    // Codes of +-norm are certain, so exact sums make no error; the direct schedule rounds once,
    // the hierarchical one twice.
    const int roundings = GetParam() == GQSGD_SCHEDULE_DIRECT         ? 1
                          : GetParam() == GQSGD_SCHEDULE_HIERARCHICAL ? 2
                                                                      : 0;
    const double step = roundings == 0 ? 0x1p-22 : roundings / 127.0;
    const Operation operation{"paper-gl8", GetParam()};
    for (float mean : mean_of(operation, inputs)) {
      ASSERT_NEAR(mean, exact, step * (1 + 0x1p-20)) << rank_count << " ranks";
    }
  }
}

// Averages of equal codes are certain, so there is nothing to clamp for any number of ranks.
TEST_P(NoOverflow, FourBitMeansAtTheMaximumAreTheNorm) {
  for (const char* preset : {"paper-gl4", "paper-ge4", "levels=linear,bits=8,combine=average"}) {
    for (int rank_count = 1; rank_count <= kMostRanks; ++rank_count) {
      for (float value : {-1.0f, 3.4e38f}) {
        const Operation operation{preset, GetParam()};
        for (float mean : mean_of(operation, all_at(value, rank_count, 67))) {
          ASSERT_NEAR(mean, value, std::fmin(ulp(value), FLT_MAX * FLT_EPSILON))
              << describe(operation) << ", " << rank_count << " ranks";
        }
      }
    }
  }
}

// A running sum counts ranks with one power of two (Morris' counter), so single results are off by
// a factor; 2,048 samples of relative deviation below 0.8 leave the mean right to 1.8 %.
TEST_P(NoOverflow, ExponentialMeanAtTheMaximumHasTheRightSignAndIsRightOverSeeds) {
  constexpr size_t kValues = 1024;
  for (int rank_count = 1; rank_count <= kMostRanks; ++rank_count) {
    auto inputs = all_at(1.0f, rank_count, kValues);
    for (Values& values : inputs) std::fill_n(values.begin(), kValues / 2, -1.0f);
    double sum = 0;
    for (const char* seed : {"paper-ge8,seed=0", "paper-ge8,seed=1"}) {
      const Operation operation{seed, GetParam()};
      const Values means = mean_of(operation, inputs);
      for (size_t e = 0; e < kValues; ++e) {
        const double towards_input = means[e] * inputs[0][e];
        ASSERT_TRUE(std::isfinite(towards_input) && towards_input > 0)
            << describe(operation) << ", " << rank_count << " ranks: " << means[e];
        sum += towards_input;
      }
    }
    ASSERT_NEAR(sum / (2 * kValues), 1, 0.1) << rank_count << " ranks";
  }
}

TEST_P(NoOverflow, ThreadsAtTheMostLinearRanksEqualVirtualRanks) {
  const auto inputs = all_at(-2.0f, kMostLinearRanks, 131);
  const Operation operation{"paper-gl8", GetParam()};
  const Values expected = mean_of(operation, inputs);
  EXPECT_EQ(run_threads(kMostLinearRanks, options_for(GetParam(), kMostLinearRanks),
                        [&](int rank, gqsgd_comm comm) {
                          Values result;
                          const std::string failure =
                              allreduce(comm, operation, inputs[rank], &result);
                          return failure.empty() ? difference(result, expected) : failure;
                        }),
            "");
}

TEST_P(NoOverflow, ExactLinearSumsRefuseMoreRanksThanLevels) {
  const bool is_hierarchical = GetParam() == GQSGD_SCHEDULE_HIERARCHICAL;
  if (GetParam() == GQSGD_SCHEDULE_DIRECT || is_hierarchical) return;  // They add wide.
  const Quantizer quantizer("paper-gl8");
  const Values value(1, 1.0f);
  const std::vector<const void*> send(128, value.data());
  const std::vector<void*> recv(128, nullptr);
  EXPECT_NE(gqsgd_simulate(quantizer.get(), 128, send.data(), recv.data(), 1, GQSGD_FLOAT32,
                           GQSGD_SUM, config_of(GetParam()), ""),
            GQSGD_OK);
  EXPECT_NE(std::string(gqsgd_last_error()).find("direct"), std::string::npos)
      << "the hint names what works: " << gqsgd_last_error();
}

INSTANTIATE_TEST_SUITE_P(Schedules, NoOverflow, testing::ValuesIn(kAll),
                         [](const auto& info) { return schedule_name(info.param); });

}  // namespace
}  // namespace gq::test
