// The bound of lists holds for exact variances of means of codes, is nearly reached, and is that of
// direct without what the re-encode adds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "src/theory/bounds.h"
#include "tests/theory/law.h"

namespace gq {
namespace {

Format four_bits(Levels levels) {
  Format format;
  format.levels = levels;
  format.bits = format.bits_down = 4;
  format.combine = Combine::average;
  return format;
}

double theta_of(const Format& format, uint32_t ranks, uint64_t value_count) {
  double theta = 0;
  EXPECT_TRUE(list_variance_bound(format, ranks, value_count, &theta).ok());
  return theta;
}

TEST(ListVarianceBound, HoldsForMeansOfCodesAndIsNearlyReached) {
  for (const Levels levels : {Levels::linear, Levels::exponential}) {
    const bool exponential = levels == Levels::exponential;
    const Grid grid{exponential, exponential ? 1.0 / 64 : 1.0 / 7};
    double largest = 0;
    for (uint32_t seed = 0; seed < 1000; ++seed) {
      std::mt19937 random(seed);
      const uint32_t ranks = 1 + random() % 5;
      std::vector<double> x(ranks, 1);  // the norm is on some rank
      for (uint32_t rank = 1; rank < ranks; ++rank) x[rank] = random() % 1000 / 1000.0;
      double squares = 0;
      for (const double value : x) squares += value * value;
      const double bound = theta_of(four_bits(levels), ranks, 1) / ranks * squares;
      const double ratio = variance_of(law_of_code_mean(grid, x)) / bound;
      ASSERT_LE(ratio, 1 + 1e-9) << "exponential: " << exponential << ", seed " << seed;
      largest = std::max(largest, ratio);
    }
    EXPECT_GT(largest, 0.25) << "a bound that nothing comes near says nothing";
  }
}

TEST(ListVarianceBound, IsThatOfDirectWithoutTheReencode) {
  const Format linear = four_bits(Levels::linear), exponential = four_bits(Levels::exponential);
  EXPECT_DOUBLE_EQ(theta_of(linear, 4, 1000000), std::sqrt(1000000 / 4) / 7);
  EXPECT_DOUBLE_EQ(theta_of(exponential, 4, 1000000), 1.0 / 32 + std::sqrt(1000000 / 4) / 64);
  double direct = 0;
  ASSERT_TRUE(variance_bound(linear, 4, 1000000, 0, &direct).ok());
  EXPECT_LT(theta_of(linear, 4, 1000000), direct);
}

TEST(ListVarianceBound, RefusesWhatNoTheoremCovers) {
  Format format = four_bits(Levels::linear);
  double theta = 0;
  EXPECT_EQ(list_variance_bound(format, 0, 10, &theta).code(), GQSGD_INVALID_ARGUMENT);
  format.rounding = Rounding::nearest;
  EXPECT_EQ(list_variance_bound(format, 4, 10, &theta).code(), GQSGD_UNSUPPORTED);
}

}  // namespace
}  // namespace gq
