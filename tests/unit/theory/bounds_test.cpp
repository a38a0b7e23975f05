// The bounds hold for exact variances over all orders of merging, are reached where they can be,
// and the readings of the paper that they correct are contradicted.
#include "src/theory/bounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/support/succeeds.h"
#include "tests/unit/theory/law.h"

namespace gq {
namespace {

/** One format at work: how it is described, and how its codes behave. */
struct Scheme {
  const char* name;
  Format format;
  Merge merge;
  Combined combined;
};

Format format_of(Levels levels, uint8_t bits, Combine combine) {
  Format format;
  format.levels = levels;
  format.bits = format.bits_down = bits;
  format.combine = combine;
  return format;
}

/** A format of the direct schedule whose owner encodes with other bits, or subtractively. */
Format wide_of(Levels levels, uint8_t bits, uint8_t bits_down, RoundingDown rounding_down,
               uint8_t mantissa_bits = 0) {
  Format format = format_of(levels, bits, Combine::average);
  format.bits_down = bits_down;
  format.rounding_down = rounding_down;
  format.mantissa_bits = mantissa_bits;
  return format;
}

// Four bits, where levels are few and every term counts, and the pairings of eight bits.
const Scheme kSchemes[] = {
    {"GL4 ring", format_of(Levels::linear, 4, Combine::average), Merge::ring, Combined::as_average},
    {"GL4 tree", format_of(Levels::linear, 4, Combine::average), Merge::tree, Combined::as_average},
    {"GL4 direct", format_of(Levels::linear, 4, Combine::average), Merge::wide, Combined::exactly},
    {"GL4 exact", format_of(Levels::linear, 4, Combine::exact), Merge::ring, Combined::exactly},
    {"GL8 exact", format_of(Levels::linear, 8, Combine::exact), Merge::tree, Combined::exactly},
    {"GE4 ring", format_of(Levels::exponential, 4, Combine::average), Merge::ring,
     Combined::as_average},
    {"GE4 tree", format_of(Levels::exponential, 4, Combine::average), Merge::tree,
     Combined::as_average},
    {"GE4 direct", format_of(Levels::exponential, 4, Combine::average), Merge::wide,
     Combined::exactly},
    {"GE8 ring", format_of(Levels::exponential, 8, Combine::sum), Merge::ring, Combined::as_sum},
    {"GE8 tree", format_of(Levels::exponential, 8, Combine::sum), Merge::tree, Combined::as_sum},
    {"GL4/8", wide_of(Levels::linear, 4, 8, RoundingDown::random), Merge::wide, Combined::exactly},
    {"GL8/4", wide_of(Levels::linear, 8, 4, RoundingDown::random), Merge::wide, Combined::exactly},
    {"GE8/4", wide_of(Levels::exponential, 8, 4, RoundingDown::random), Merge::wide,
     Combined::exactly},
    {"GE8 with 2 mantissa bits", wide_of(Levels::exponential, 8, 8, RoundingDown::random, 2),
     Merge::wide, Combined::exactly},
    {"GL4 subtractive", wide_of(Levels::linear, 4, 4, RoundingDown::subtractive), Merge::wide,
     Combined::exactly},
    {"GL4/8 subtractive", wide_of(Levels::linear, 4, 8, RoundingDown::subtractive), Merge::wide,
     Combined::exactly},
};

uint32_t reduction_depth_of(Merge merge, uint32_t ranks) {
  if (merge == Merge::ring) return ranks - 1;
  if (merge == Merge::tree) return static_cast<uint32_t>(std::ceil(std::log2(ranks)));
  return 0;
}

using Vectors = std::vector<std::vector<double>>;  ///< [coordinate][rank]

double norm_order(NormOrder order, const std::vector<double>& values) {
  double largest = 0, sum = 0, squares = 0;
  for (double value : values) {
    largest = std::max(largest, std::abs(value));
    sum += std::abs(value);
    squares += value * value;
  }
  return order == NormOrder::inf ? largest : order == NormOrder::one ? sum : std::sqrt(squares);
}

double global_norm(const Format& format, const Vectors& x) {
  std::vector<double> of_ranks;
  for (size_t rank = 0; rank < x[0].size(); ++rank) {
    std::vector<double> of_rank;
    for (const auto& coordinate : x) of_rank.push_back(coordinate[rank]);
    of_ranks.push_back(norm_order(format.q, of_rank));
  }
  return norm_order(format.p, of_ranks);
}

double squared_length(const Vectors& x) {
  double sum = 0;
  for (const auto& coordinate : x) {
    for (double value : coordinate) sum += value * value;
  }
  return sum;
}

/** The levels that codes of so many bits lie on, in norms. */
Grid grid_of(const Coding& coding, uint32_t bits, uint32_t steps) {
  if (coding.levels == Levels::linear) return {false, 1.0 / steps};
  const int top = static_cast<int>(code_max(bits) - coding.headroom);
  if (coding.mantissa_bits == 0) return {true, std::exp2(1 - top)};
  return {true, std::exp2(1 - top / 4) / (1 + top % 4 / 4.0) / 4, 2};
}

/** Of the mean of one coordinate in norms, whose expectation must be right. */
double variance_of_mean(const Scheme& scheme, const Coding& coding,
                        const std::vector<double>& coordinate, double mean) {
  const Grid grid = grid_of(coding, coding.bits, coding.steps);
  if (scheme.merge != Merge::wide) {
    const Law law = law_of_mean(grid, coordinate, scheme.merge, scheme.combined);
    EXPECT_NEAR(mean_of(law), mean, 1e-12) << scheme.name;
    return variance_of(law);
  }
  const Grid down = grid_of(coding, coding.bits_down, coding.steps_down);
  const bool subtractive = coding.rounding_down == RoundingDown::subtractive;
  const Law law =
      subtractive ? law_of_code_mean(grid, coordinate) : law_of_wide_mean(grid, down, coordinate);
  EXPECT_NEAR(mean_of(law), mean, 1e-12) << scheme.name;
  // Uniform in half a step to either side, whatever is encoded.
  return variance_of(law) + (subtractive ? down.smallest * down.smallest / 12 : 0);
}

/** E ||G(x) - mean||^2 over theta / n * sum ||x_i||^2. */
double variance_over_bound(const Scheme& scheme, const Vectors& x) {
  const uint32_t n = static_cast<uint32_t>(x[0].size());
  const uint32_t reduction_depth = reduction_depth_of(scheme.merge, n);
  const Coding coding = coding_of(scheme.format, n, reduction_depth);
  const double norm = global_norm(scheme.format, x);
  double variance = 0;
  for (std::vector<double> coordinate : x) {
    double mean = 0;
    for (double& value : coordinate) mean += value /= norm;
    variance += norm * norm * variance_of_mean(scheme, coding, coordinate, mean / n);
  }
  double theta = 0;
  EXPECT_TRUE(variance_bound(scheme.format, n, x.size(), reduction_depth, &theta).ok());
  return variance / (theta / n * squared_length(x));
}

/** Values of many magnitudes, some equal on all ranks, some zero: what bounds are tried with. */
Vectors some_vectors(uint32_t ranks, size_t value_count, std::mt19937* random) {
  std::normal_distribution<double> normal;
  const double spread = static_cast<double>((*random)() % 4);
  const bool alike = (*random)() % 3 == 0;
  Vectors x(value_count, std::vector<double>(ranks));
  for (auto& coordinate : x) {
    const double common = std::exp(spread * normal(*random));
    for (double& value : coordinate) {
      value = alike ? common : normal(*random) * std::exp(spread * normal(*random));
      if ((*random)() % 8 == 0) value = 0;
    }
  }
  x[0][0] = 1;  // no vector is all zero
  return x;
}

TEST(VarianceBound, EveryOrderAndNorm_HoldsForExactVariances) {
  for (const Scheme& scheme : kSchemes) {
    double largest = 0;
    for (uint32_t seed = 0; seed < 1500; ++seed) {
      std::mt19937 random(seed);
      Scheme tried = scheme;
      tried.format.q = static_cast<NormOrder>(random() % 3);
      tried.format.p = static_cast<NormOrder>(random() % 3);
      const uint32_t ranks = 1 + random() % 5;
      const Vectors x = some_vectors(ranks, 1 + random() % 6, &random);
      const double ratio = variance_over_bound(tried, x);
      ASSERT_LE(ratio, 1 + 1e-9) << scheme.name << ", seed " << seed;
      largest = std::max(largest, ratio);
    }
    EXPECT_GT(largest, 0.25) << scheme.name << ": a bound that nothing comes near says nothing";
  }
}

TEST(VarianceBound, LinearHalfwayBetweenLevels_Reached) {
  // p = q = 2, one rank, 4 s^2 equal values: each lies at half a step. Only quantizing: s = 7.
  Scheme scheme = kSchemes[3];
  scheme.format.q = scheme.format.p = NormOrder::two;
  double theta = 0;
  ASSERT_TRUE(variance_bound(scheme.format, 2, 4 * 9 / 2, 1, &theta).ok());  // s = floor(7 / 2) = 3
  EXPECT_DOUBLE_EQ(theta, 18.0 / (4 * 9));
  EXPECT_NEAR(variance_over_bound(scheme, Vectors(18, {1.0, 1.0})), 1, 1e-12);
}

TEST(VarianceBound, SmallerRoot_ThePapers) {
  const uint64_t d = 1000000;
  double theta = 0;
  ASSERT_TRUE(variance_bound(kSchemes[4].format, 4, d, 2, &theta).ok());
  EXPECT_DOUBLE_EQ(theta, std::sqrt(d / 4.0) / 31);  // s = floor(127 / 4)
  ASSERT_TRUE(variance_bound(kSchemes[8].format, 1, d, 0, &theta).ok());
  const double quantized_once = 1.0 / 8;  // 2^-126 sqrt(d) is nothing
  EXPECT_NEAR(1 + theta, 9.0 / 8 * (1 + quantized_once), 1e-12);
}

double theta_of(const Format& format, uint32_t ranks, uint64_t value_count,
                uint32_t reduction_depth) {
  double theta = -1;
  EXPECT_TRUE(test::succeeds(variance_bound(format, ranks, value_count, reduction_depth, &theta)));
  return theta;
}

TEST(VarianceBound, Blocks_BlockInsteadOfCall_NormsOneIn128TooLarge) {
  Format blocks = kSchemes[4].format;
  blocks.block = 128;
  const double of_a_call = theta_of(kSchemes[4].format, 4, 128, 2);
  EXPECT_DOUBLE_EQ(of_a_call, 128 / (4.0 * 31 * 31));
  EXPECT_DOUBLE_EQ(theta_of(blocks, 4, 1000000, 2), of_a_call * std::pow(129.0 / 128, 2));
}

TEST(VarianceBound, Rotation_PaddingCounted) {
  const Format plain = kSchemes[4].format;
  Format rotated = plain;
  rotated.rotate = Rotate::hadamard;
  EXPECT_EQ(theta_of(rotated, 4, 2000, 2), theta_of(plain, 4, 2048, 2));
  // A norm over rotations of several lengths may fit the ones sqrt(2) times worse than the others.
  EXPECT_EQ(theta_of(rotated, 4, 1025, 2), 2 * theta_of(plain, 4, 1152, 2));
  Format blocks = plain;
  for (const uint32_t block : {128u, 256u}) {
    rotated.block = blocks.block = block;
    EXPECT_EQ(theta_of(rotated, 4, 1, 2), (block > 128 ? 2 : 1) * theta_of(blocks, 4, 128, 2));
    EXPECT_EQ(theta_of(rotated, 4, 1024, 2), theta_of(blocks, 4, 5000, 2));
  }
}

TEST(VarianceBound, CorrelatedRoundingAndRescale_BoundWithoutThem) {
  Format plain = wide_of(Levels::linear, 8, 8, RoundingDown::random);
  plain.block = 128;
  Format with = plain;
  with.rounding = Rounding::correlated;
  with.rescale = true;
  EXPECT_EQ(theta_of(with, 16, 1000000, 0), theta_of(plain, 16, 1000000, 0));
}

TEST(VarianceBound, MantissaBits_ReachedAt10Over9) {
  // Between 1 and 5/4 of an octave: 1/80 for each rounding. Two ranks on a level leave the
  // re-encode.
  const Scheme& scheme = kSchemes[13];
  ASSERT_EQ(scheme.format.mantissa_bits, 2);
  const double theta = theta_of(scheme.format, 1, 1, 0);
  EXPECT_NEAR(1 + theta, 81.0 / 80 * 81 / 80, 1e-9);
  const Grid grid{true, 1.0 / 4, 2};
  EXPECT_NEAR(variance_of(law_of_code_mean(grid, {10.0 / 9})) / (100.0 / 81), 1.0 / 80, 1e-12);
}

TEST(VarianceBound, PowersOf9Over8TimesThetaAlone_TooSmall) {
  // Three equal ranks on a level: quantizing adds nothing, the reduction of 2 and 1 does.
  const Scheme& scheme = kSchemes[8];
  const Law law = law_of_mean({true, std::exp2(-124)}, {1, 1, 1}, Merge::ring, Combined::as_sum);
  const double ratio = variance_of(law) / 1;  // sum ||x_i||^2 / n is 1
  double theta_quantize = 1.0 / (8 * 3);
  EXPECT_GT(ratio, theta_quantize * std::pow(9.0 / 8, 2));
  double theta = 0;
  ASSERT_TRUE(variance_bound(scheme.format, 3, 1, 2, &theta).ok());
  EXPECT_LE(ratio, theta);
  EXPECT_NEAR(1 + theta, std::pow(9.0 / 8, 2) * (1 + theta_quantize), 1e-12);
}

TEST(VarianceBound, NoneAndEmptyCalls_NoNoise) {
  double theta = 1;
  ASSERT_TRUE(variance_bound(format_of(Levels::none, 32, Combine::sum), 4, 10, 0, &theta).ok());
  EXPECT_EQ(theta, 0);
  theta = 1;
  ASSERT_TRUE(variance_bound(kSchemes[0].format, 4, 0, 3, &theta).ok());
  EXPECT_EQ(theta, 0);
}

TEST(VarianceBound, MillionRanksInARing_Infinite) {
  double theta = 0;
  ASSERT_TRUE(variance_bound(kSchemes[8].format, kRanksMax, 10, kRanksMax - 1, &theta).ok());
  EXPECT_TRUE(std::isinf(theta));
}

TEST(VarianceBound, NoTheorem_Unsupported) {
  double theta = 0;
  Format format = kSchemes[0].format;
  format.rounding = Rounding::nearest;
  const Status biased = variance_bound(format, 4, 10, 2, &theta);
  EXPECT_EQ(biased.code(), GQSGD_UNSUPPORTED);
  EXPECT_STREQ(biased.sentence(),
               "there is no variance bound for rounding=nearest, which is biased");
  EXPECT_EQ(variance_bound(kSchemes[0].format, 0, 10, 0, &theta).code(), GQSGD_INVALID_ARGUMENT);
  EXPECT_EQ(variance_bound(kSchemes[0].format, 4, 10, 4, &theta).code(), GQSGD_INVALID_ARGUMENT);
  const Status exact = variance_bound(kSchemes[3].format, 8, 10, 3, &theta);
  EXPECT_EQ(exact.code(), GQSGD_INVALID_ARGUMENT);
  EXPECT_NE(std::string(exact.sentence()).find("combine=average"), std::string::npos);
}

TEST(DepthFactor, ExponentialReductions_GrowAlone) {
  EXPECT_EQ(depth_factor(kSchemes[0].format, 5), 1);
  EXPECT_DOUBLE_EQ(depth_factor(kSchemes[8].format, 0), 9.0 / 8);
  EXPECT_DOUBLE_EQ(depth_factor(kSchemes[8].format, 3), 729.0 / 512);
  EXPECT_DOUBLE_EQ(depth_factor(kSchemes[13].format, 0), 81.0 / 80);
}

/** All trees that merge `ranks` in chains of at most `height`: the largest sum of W over a chain
 *  and the largest sum of W^2; negative if there is no such tree. */
struct Largest {
  double chain = -1;
  double squares = -1;
};

Largest over_all_trees(uint32_t ranks, uint32_t height) {
  if (ranks == 1) return {0, 0};
  Largest largest;
  for (uint32_t left = 1; height > 0 && 2 * left <= ranks; ++left) {
    const Largest a = over_all_trees(left, height - 1);
    const Largest b = over_all_trees(ranks - left, height - 1);
    if (a.chain < 0 || b.chain < 0) continue;
    largest.chain = std::max(largest.chain, ranks + std::max(a.chain, b.chain));
    largest.squares = std::max(largest.squares, double(ranks) * ranks + a.squares + b.squares);
  }
  return largest;
}

TEST(AverageWeight, EveryTreeOfMerges_Bounded) {
  for (uint32_t ranks = 2; ranks <= 12; ++ranks) {
    for (uint32_t height = 1; height < ranks; ++height) {
      const Largest largest = over_all_trees(ranks, height);
      const double weight = average_weight(ranks, height);
      EXPECT_LE(largest.chain, ranks * weight + 1e-9) << ranks << ", " << height;
      EXPECT_LE(largest.squares, ranks * ranks * weight + 1e-9) << ranks << ", " << height;
    }
    const double of_a_ring = over_all_trees(ranks, ranks - 1).chain / ranks;
    EXPECT_DOUBLE_EQ(average_weight(ranks, ranks - 1), of_a_ring);
  }
}

TEST(AverageWeight, PowersOfTwo_ThatOfAPerfectTree) {
  EXPECT_DOUBLE_EQ(average_weight(8, 3), (8.0 + 4 + 2) / 8);
  EXPECT_DOUBLE_EQ(average_weight(1024, 10), 2 - 2.0 / 1024);
  EXPECT_EQ(average_weight(1, 0), 0);
}

/** Expected codes other than zero for values in units of the norm. */
double expected_nonzeros(const std::vector<double>& values, double smallest) {
  double sum = 0;
  for (double value : values) sum += std::min(1.0, std::abs(value) / smallest);
  return sum;
}

TEST(SparsityBound, ExactExpectations_Hold) {
  for (const Scheme& scheme : {kSchemes[2], kSchemes[7]}) {
    Format format = scheme.format;
    format.q = format.p = NormOrder::two;
    const double smallest = scheme.format.levels == Levels::linear ? 1.0 / 7 : 1.0 / 64;
    for (uint32_t seed = 0; seed < 300; ++seed) {
      std::mt19937 random(seed);
      const uint32_t ranks = 1 + random() % 4;
      const Vectors x = some_vectors(ranks, 1 + random() % 3000, &random);
      const double norm = std::sqrt(squared_length(x));
      std::vector<double> values;
      for (const auto& coordinate : x) {
        for (double value : coordinate) values.push_back(value / norm);
      }
      double bound = 0;
      ASSERT_TRUE(sparsity_bound(format, ranks, x.size(), 0, &bound).ok());
      ASSERT_LE(expected_nonzeros(values, smallest), bound) << "seed " << seed;
    }
  }
}

TEST(SparsityBound, WithoutTheFactorBeforeTheRoot_Contradicted) {
  Format format = kSchemes[2].format;
  format.q = format.p = NormOrder::two;
  const double count = 1e6, s = 7;
  const double expected = count * s / std::sqrt(count);  // all values equal 1 / sqrt(count)
  EXPECT_GT(expected, s * s + std::sqrt(count));
  double bound = 0;
  ASSERT_TRUE(sparsity_bound(format, 10, 100000, 0, &bound).ok());
  EXPECT_DOUBLE_EQ(bound, s * s + s * std::sqrt(count));
  EXPECT_LE(expected, bound);
}

TEST(SparsityBound, NormsThatBoundTheLength_NeverExceedTheCount) {
  double bound = 0;
  EXPECT_EQ(sparsity_bound(kSchemes[2].format, 4, 10, 0, &bound).code(), GQSGD_UNSUPPORTED);
  Format format = kSchemes[2].format;
  format.q = format.p = NormOrder::two;
  ASSERT_TRUE(sparsity_bound(format, 4, 10, 0, &bound).ok());
  EXPECT_EQ(bound, 40);
}

}  // namespace
}  // namespace gq
