// What reductions with combine=average add to a mean, against the closed form of each schedule. The
// inputs are whole levels, so that quantizing rounds nothing and all noise is the reductions'.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/support/operation.h"

namespace gq::test {
namespace {

constexpr int kTop = 127;  // 8 bits: levels -127..127, one step apart when the norm is 127

/** Draws of inputs and of random numbers. */
struct Sample {
  size_t value_count;
  uint64_t step_count;
};
constexpr Sample kSample{16384, 32};

/** Of 1,024 ranks: few, since every rank is one of this thread. */
constexpr Sample kManyRanksSample{32768, 2};

/** Which fractions 16,384 inputs have moves a mean square by 0.8 % at most (one deviation). */
constexpr double kTolerance = 0.03;

std::vector<Values> whole_levels(size_t rank_count, size_t value_count) {
  std::mt19937 random(static_cast<uint32_t>(rank_count));
  std::uniform_int_distribution<int> level(-kTop, kTop);
  std::vector<Values> inputs(rank_count, Values(value_count));
  for (Values& values : inputs) {
    for (float& value : values) value = static_cast<float>(level(random));
    values[0] = kTop;
  }
  return inputs;
}

/** Mean square error of the mean, in squared steps. */
double measured_noise(gqsgd_schedule schedule, size_t rank_count, const Sample& sample,
                      const std::string& options = "") {
  const std::vector<Values> inputs = whole_levels(rank_count, sample.value_count);
  double sum = 0;
  for (uint64_t step = 0; step < sample.step_count; ++step) {
    Operation operation{"paper-gl8,combine=average", schedule};
    operation.step = step;
    const Values result = simulate(operation, inputs, options);
    for (size_t e = 0; e < sample.value_count; ++e) {
      double mean = 0;
      for (const Values& values : inputs) mean += values[e];
      const double error = result[e] - mean / static_cast<double>(rank_count);
      sum += error * error;
    }
  }
  return sum / static_cast<double>(sample.value_count * sample.step_count);
}

/** f (1 - f) for f a multiple of 1 / parts, each as likely as the others. */
double rounding_variance(double parts) { return (parts * parts - 1) / (6 * parts * parts); }

/** The operand arrives with weight W - 1 and the own codes have weight 1: W = 2 .. n. */
double ring_noise(double n) {
  double noise = 0;
  for (double merged = 2; merged <= n; ++merged) {
    noise += merged * merged / (n * n) * rounding_variance(merged);
  }
  return noise;
}

/** The same where chains are so long that a level is no longer spread evenly over fractions of W:
 *  the sum of the ranks before is near zero beside it. */
double long_ring_noise(double n) {
  double noise = 0;
  for (double merged = 2; merged <= n; ++merged) {
    double variance = 0;
    for (double level = -kTop; level <= kTop; ++level) {
      const double fraction = level / merged - std::floor(level / merged);
      variance += fraction * (1 - fraction) / (2 * kTop + 1);
    }
    noise += merged * merged / (n * n) * variance;
  }
  return noise;
}

/** n a power of two: equal weights always, so that a mean is whole or half way. n / 2^k merges of
 *  2^k ranks each. */
double halving_noise(double n) {
  double noise = 0;
  for (double merged = 2; merged <= n; merged *= 2) {
    noise += n / merged * merged * merged / (n * n) * rounding_variance(2);
  }
  return noise;
}

void expect_noise(gqsgd_schedule schedule, size_t rank_count, double closed_form,
                  const Sample& sample = kSample) {
  EXPECT_NEAR(measured_noise(schedule, rank_count, sample) / closed_form, 1, kTolerance)
      << schedule_name(schedule) << " of " << rank_count << ", expected " << closed_form;
}

TEST(AverageNoise, OfARingGrowsAsNOver18) {
  for (const size_t n : {2u, 3u, 5u, 8u, 12u}) {
    expect_noise(GQSGD_SCHEDULE_RING, n, ring_noise(static_cast<double>(n)));
  }
  EXPECT_NEAR(ring_noise(1000) / (1000 / 18.0), 1, 0.01);
}

TEST(AverageNoise, OfTreeAndButterflyStaysBelowAQuarter) {
  for (const size_t n : {2u, 4u, 8u, 16u}) {
    const double closed_form = halving_noise(static_cast<double>(n));
    EXPECT_LT(closed_form, 0.25);
    expect_noise(GQSGD_SCHEDULE_TREE, n, closed_form);
    expect_noise(GQSGD_SCHEDULE_BUTTERFLY, n, closed_form);
  }
}

TEST(AverageNoise, OfDirectIsOneRoundingOfMultiplesOfOneOverN) {
  for (const size_t n : {2u, 3u, 5u, 8u, 12u}) {
    expect_noise(GQSGD_SCHEDULE_DIRECT, n, rounding_variance(static_cast<double>(n)));
  }
}

/** Means of nodes are rounded to multiples of 1 / N of a step of the result. */
TEST(AverageNoise, OfEqualNodesIsThatOfDirectAndAnotherOneByTheirNumber) {
  for (const size_t nodes : {2u, 3u, 4u}) {
    for (const size_t ranks_of_node : {2u, 3u}) {
      std::vector<int32_t> node_ids;
      for (size_t rank = 0; rank < nodes * ranks_of_node; ++rank) {
        node_ids.push_back(static_cast<int32_t>(rank % nodes));
      }
      const double count = static_cast<double>(nodes);
      const double closed_form =
          rounding_variance(count) + rounding_variance(static_cast<double>(ranks_of_node)) / count;
      EXPECT_LT(closed_form, (1 + 1 / count) / 6);
      EXPECT_NEAR(measured_noise(GQSGD_SCHEDULE_HIERARCHICAL, node_ids.size(), kSample,
                                 nodes_option(node_ids)) /
                      closed_form,
                  1, kTolerance)
          << nodes << " nodes of " << ranks_of_node;
    }
  }
}

TEST(AverageNoise, Of1024RanksIsThatOfTheirChains) {
  constexpr size_t n = 1024;
  EXPECT_NEAR(long_ring_noise(100) / ring_noise(100), 1, 0.01);
  expect_noise(GQSGD_SCHEDULE_RING, n, long_ring_noise(n), kManyRanksSample);
  expect_noise(GQSGD_SCHEDULE_TREE, n, halving_noise(n), kManyRanksSample);
  expect_noise(GQSGD_SCHEDULE_BUTTERFLY, n, halving_noise(n), kManyRanksSample);
  expect_noise(GQSGD_SCHEDULE_DIRECT, n, rounding_variance(n), kManyRanksSample);
}

}  // namespace
}  // namespace gq::test
