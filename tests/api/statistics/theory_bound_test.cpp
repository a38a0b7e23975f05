// The paper's error bounds hold for whole allreduces: E |G - mean|^2 <= theta / n * sum |x_i|^2,
// with
//   linear levels      theta_L = min(sqrt(d / n) / s, d / (4 s^2))
//   exponential levels theta_E = 1 / (8 n) + sqrt(d / n) / 2^(s - h - 1), s = 127 levels, headroom
//   h
// for one encode, and (1 + theta) <= (9/8)^depth (1 + theta_E) after `depth` reductions at random.
// The direct schedule rounds a linear sum once more on the grid of n ranks: norm^2 / (4 s^2) per
// value.
#include <gqsgd_model.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/api/statistics/sampling.h"

namespace gq::test {
namespace {

constexpr uint64_t kDraws = 40;
constexpr double kTopLinear = 127;
constexpr double kLevels = 127;

double total_square(const std::vector<Values>& inputs) {
  double sum = 0;
  for (const Values& values : inputs) {
    for (float value : values) sum += static_cast<double>(value) * value;
  }
  return sum;
}

/** Mean over draws of |G - mean|^2. */
double measured_error(const Experiment& experiment, double noise_factor = 1) {
  double sum = 0;
  for (uint64_t step = 0; step < kDraws; ++step) {
    const Values result = experiment.library()(step);
    for (size_t e = 0; e < result.size(); ++e) {
      double mean = 0;
      for (const Values& values : experiment.inputs) mean += values[e];
      mean /= static_cast<double>(experiment.rank_count());
      sum += noise_factor * (result[e] - mean) * (result[e] - mean);
    }
  }
  return sum / static_cast<double>(kDraws);
}

double linear_theta(double d, double n, double levels) {
  return std::min(std::sqrt(d / n) / levels, d / (4 * levels * levels));
}

double exponential_theta(double d, double n, double headroom, double depth) {
  const double one_encode = 1 / (8 * n) + std::sqrt(d / n) * std::exp2(-(kLevels - headroom - 1));
  return std::pow(9.0 / 8.0, depth) * (1 + one_encode) - 1;
}

double bound_of(const Experiment& experiment) {
  const double d = static_cast<double>(experiment.value_count());
  const double n = static_cast<double>(experiment.rank_count());
  const bool is_ring = experiment.schedule == GQSGD_SCHEDULE_RING;
  const double average_square = total_square(experiment.inputs) / n;
  if (experiment.preset == "paper-ge8") {
    const double depth = is_ring ? n - 1 : 1;
    return exponential_theta(d, n, is_ring ? n - 1 : 0, depth) * average_square;
  }
  if (is_ring) return linear_theta(d, n, std::floor(kTopLinear / n)) * average_square;
  const double norm = norm_of(experiment.inputs);
  const double second = d * norm * norm / (4 * kTopLinear * kTopLinear);
  return linear_theta(d, n, kTopLinear) * average_square + second;
}

/** Inputs of different tails: normal, log-normal, layers of different scale, mostly zero, one-hot.
 */
std::vector<std::vector<Values>> data_sets(int rank_count, size_t value_count) {
  std::vector<std::vector<Values>> all(5, gradients(rank_count, value_count, 11));
  for (int rank = 0; rank < rank_count; ++rank) {
    for (size_t e = 0; e < value_count; ++e) {
      all[1][rank][e] *= static_cast<float>(std::exp(2 * normal_at(12, e)));
      all[2][rank][e] *= std::pow(10.0f, -static_cast<float>(e * 4 / value_count));
      if (uniform_at(13, e) > 0.01) all[3][rank][e] = 0;
      all[4][rank][e] = e == value_count / 3 + static_cast<size_t>(rank) ? 1.0f : 0.0f;
    }
  }
  return all;
}

TEST(TheoryBound, EveryFormatScheduleAndKindOfData_Holds) {
  for (int rank_count : {1, 2, 4, 9}) {
    for (const auto& inputs : data_sets(rank_count, 4096)) {
      for (const char* preset : {"paper-gl8", "paper-ge8"}) {
        for (gqsgd_schedule schedule : kSchedules) {
          const Experiment experiment{preset, schedule, inputs};
          EXPECT_LE(measured_error(experiment), bound_of(experiment)) << experiment.name();
        }
      }
    }
  }
}

/** The library's own bound, which the docstring derives, for the mean square error of the mean. */
double promised(const Experiment& experiment) {
  const Quantizer quantizer(experiment.preset);
  const int32_t rank_count = static_cast<int32_t>(experiment.rank_count());
  double theta = 0;
  EXPECT_EQ(gqsgd_variance_bound(quantizer.get(), rank_count, experiment.value_count(),
                                 experiment.schedule, &theta),
            GQSGD_OK)
      << experiment.name() << ": " << gqsgd_last_error();
  return theta * total_square(experiment.inputs) / rank_count;
}

TEST(TheoryBound, EveryPresetAndKindOfData_LibrarysBoundHolds) {
  for (int rank_count : {1, 4, 9}) {
    for (const auto& inputs : data_sets(rank_count, 4096)) {
      for (const char* preset :
           {"paper-gl8", "paper-ge8", "paper-gl4", "paper-ge4", "blocks-8", "rotated-8",
            "rotated-4-8", "rotated-4", "relative-8", "bf16", "fp16"}) {
        const Experiment experiment{preset, GQSGD_SCHEDULE_DIRECT, inputs};
        EXPECT_LE(measured_error(experiment), promised(experiment)) << experiment.name();
      }
    }
  }
}

// One bound for all nodes: many small ones, one large one beside a rank alone, two halves.
TEST(TheoryBound, Hierarchy_AnyNodes_Holds) {
  const std::vector<int32_t> kinds[] = {
      {0, 0, 1, 1, 2, 2, 3, 3}, {0, 0, 0, 0, 0, 0, 0, 1}, {0, 1, 0, 1, 0, 1, 0, 1}};
  for (const std::vector<int32_t>& node_ids : kinds) {
    for (const auto& inputs : data_sets(8, 4096)) {
      for (const char* preset :
           {"paper-gl8", "paper-ge8", "paper-gl4", "paper-ge4", "blocks-8", "rotated-8",
            "rotated-4-8", "rotated-4", "relative-8", "bf16", "fp16"}) {
        const Experiment experiment{preset, GQSGD_SCHEDULE_HIERARCHICAL, inputs, node_ids};
        EXPECT_LE(measured_error(experiment), promised(experiment))
            << experiment.name() << ", " << nodes_option(node_ids);
      }
    }
  }
}

/** One value at the norm and all others `fraction` of it: bounds are reached here. */
Experiment worst_case(const char* preset, double fraction) {
  Values values(8192, static_cast<float>(fraction));
  values[0] = 1;
  return {preset, GQSGD_SCHEDULE_RING, {values}};
}

// At 4/3 of a level the variance f (1 - f) of an exponential code is 1/8 of the square of its
// value.
TEST(TheoryBound, WorstExponentialInputs_Reached) {
  const Experiment experiment = worst_case("paper-ge8", 4.0 / 3.0 / 8.0);
  const double ratio = measured_error(experiment) / bound_of(experiment);
  EXPECT_LE(ratio, 1);
  EXPECT_GE(ratio, 0.97);
}

// Half-way between codes every value adds a quarter of a squared step, whatever its own square.
TEST(TheoryBound, WorstLinearInputs_QuarterSquaredStepReached) {
  const Experiment experiment = worst_case("paper-gl8", 20.5 / 127);
  const double quarter_steps = 8191 / (4 * kTopLinear * kTopLinear);
  EXPECT_NEAR(measured_error(experiment) / quarter_steps, 1, 1e-3);
}

TEST(TheoryBoundCanFail, FourPercentMoreNoise_BreaksTheWorstCase) {
  const Experiment experiment = worst_case("paper-ge8", 4.0 / 3.0 / 8.0);
  EXPECT_GT(measured_error(experiment, 1.04), bound_of(experiment));
}

}  // namespace
}  // namespace gq::test
