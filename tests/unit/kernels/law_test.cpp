// Sampled laws of whole stages: means and variances of roundings against their exact two-point
// values, and independence of ranks, hops and steps. Fixed seeds; bounds are five deviations.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/codec/linear.h"
#include "kernels/codec/strata.h"
#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

/** A number between two neighbouring levels. */
struct Interval {
  double low, width, fraction;
};

/** Errors in units of the interval they fell into, against their exact variance f (1 - f). */
class ErrorSum {
 public:
  void add(double decoded, const Interval& interval) {
    const double error = (decoded - interval.low) / interval.width - interval.fraction;
    sum_ += error;
    squares_ += error * error;
    exact_ += interval.fraction * (1 - interval.fraction);
  }
  double deviations_of_mean() const { return sum_ / std::sqrt(exact_); }
  double variance_ratio() const { return squares_ / exact_; }

 private:
  double sum_ = 0, squares_ = 0, exact_ = 0;
};

void expect_law(const ErrorSum& errors, const std::string& what) {
  EXPECT_LE(std::fabs(errors.deviations_of_mean()), 5) << what;
  EXPECT_NEAR(errors.variance_ratio(), 1, 0.03) << what;
}

/** The levels around a magnitude: multiples of `step`, or powers of two down to `smallest`. */
Interval interval_of(const Coding& coding, double value, double step, double smallest) {
  if (coding.levels == Levels::linear) {
    const double below = std::floor(value / step);
    return {below * step, step, value / step - below};
  }
  const double magnitude = std::fabs(value);
  double low = 0, width = smallest;
  if (magnitude >= smallest) width = low = std::exp2(std::floor(std::log2(magnitude)));
  const double sign = value < 0 ? -1 : 1;
  return {sign * low, sign * width, (magnitude - low) / width};
}

Floats spread_values(const Coding& coding, size_t value_count) {
  Floats values(value_count);
  for (size_t e = 0; e < value_count; ++e) {
    const double magnitude = 1 - uniform_at(5, e);
    const double reach = coding.levels == Levels::linear ? 1 : std::exp2(-(e % 5 * 2.0));
    values[e] = static_cast<float>((e & 1 ? -1 : 1) * magnitude * reach);
  }
  values[0] = 1;
  return values;
}

TEST(Law, Quantize_UnbiasedWithTheExactVariance) {
  constexpr size_t kValues = 4096, kSteps = 256;
  for (const Coding& coding : code_formats(1, 0)) {
    const Floats values = spread_values(coding, kValues);
    ErrorSum errors;
    for (uint32_t step = 0; step < kSteps; ++step) {
      Call call{scalar_stages(), coding};
      call.site.step = step;
      const Words words = quantize(call, values, 1);
      const Floats decoded = dequantize(call, words, kValues, 1, GQSGD_MEAN);
      for (size_t e = 1; e < kValues; ++e) {
        const double smallest = std::exp2(1.0 - code_max(coding.bits));
        errors.add(decoded[e],
                   interval_of(coding, values[e], 1.0 / code_max(coding.bits), smallest));
      }
    }
    expect_law(errors, describe(coding));
  }
}

double value_of_lane(const Coding& coding, uint32_t lane) {
  if (coding.levels == Levels::linear) {
    return static_cast<double>(lane) - static_cast<double>(coding.steps);
  }
  const uint32_t c = lane & code_max(coding.bits);
  const double magnitude = c == 0 ? 0 : std::exp2(static_cast<double>(c) - 1);
  return lane > code_max(coding.bits) ? -magnitude : magnitude;
}

/** Codes whose sums keep away from saturation and, half of them, close together. */
Words close_codes(const Coding& coding, uint64_t seed, size_t value_count) {
  Words words(words_for(coding.bits, value_count), 0);
  const uint32_t span = coding.bits == 8 ? 6 : 7;
  for (size_t e = 0; e < value_count; ++e) {
    const uint32_t draw = static_cast<uint32_t>(mix(seed ^ e * 77) >> 32);
    uint32_t lane = draw % (2 * coding.steps + 1);
    if (coding.levels == Levels::exponential) {
      const uint32_t c = coding.bits == 8 ? 40 + draw % span : draw % (span + 1);
      lane = c == 0 ? 0 : c | (draw >> 31) << (coding.bits - 1);
    }
    const size_t per_word = 32 / coding.bits;
    words[e / per_word] |= lane << (coding.bits * (e % per_word));
  }
  return words;
}

void expect_reduce_law(const Coding& coding, uint32_t weight_a, uint32_t weight_b) {
  constexpr size_t kValues = 4096, kSteps = 256;
  const Words a = close_codes(coding, 3, kValues), b = close_codes(coding, 4, kValues);
  const bool sums = coding.combine == Combine::sum;
  ErrorSum errors;
  for (uint32_t step = 0; step < kSteps; ++step) {
    Call call{scalar_stages(), coding};
    call.site.step = step;
    call.site.hop = 1;
    const Words merged = reduce(call, a, b, kValues, weight_a, weight_b);
    for (size_t e = 0; e < kValues; ++e) {
      const double va = value_of_lane(coding, lane_at(a, coding.bits, e));
      const double vb = value_of_lane(coding, lane_at(b, coding.bits, e));
      const double exact = sums ? va + vb : (weight_a * va + weight_b * vb) / (weight_a + weight_b);
      const Interval interval = interval_of(coding, exact, 1, 1);
      errors.add(value_of_lane(coding, lane_at(merged, coding.bits, e)), interval);
    }
  }
  expect_law(errors, describe(coding) + " weights " + std::to_string(weight_a) + " " +
                         std::to_string(weight_b));
}

TEST(Law, Reduce_UnbiasedWithTheExactVariance) {
  expect_reduce_law(coding_for(Levels::exponential, 8, Combine::sum, 4, 3), 1, 1);
  for (const uint8_t bits : {8, 4}) {
    expect_reduce_law(coding_for(Levels::linear, bits, Combine::average, 4, 2), 1, 1);
    expect_reduce_law(coding_for(Levels::linear, bits, Combine::average, 4, 3), 3, 1);
  }
  expect_reduce_law(coding_for(Levels::exponential, 4, Combine::average, 4, 2), 1, 1);
  expect_reduce_law(coding_for(Levels::exponential, 4, Combine::average, 4, 3), 3, 1);
}

TEST(Law, WideSums_UnbiasedWithTheExactVariance) {
  constexpr size_t kValues = 4096, kSteps = 256;
  constexpr uint32_t kRanks = 3;
  for (const Coding& coding : code_formats(kRanks, 0)) {
    std::vector<Words> operands;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      operands.push_back(close_codes(coding, rank, kValues));
    }
    const double norm = value_of_lane(
        coding, coding.levels == Levels::linear ? 2 * coding.steps : code_max(coding.bits));
    ErrorSum errors;
    for (uint32_t step = 0; step < kSteps; ++step) {
      Call call{scalar_stages(), coding};
      call.site.step = step;
      const Words merged = reduce_many(call, operands, kValues, 1);
      for (size_t e = 0; e < kValues; ++e) {
        double mean = 0;
        for (const Words& words : operands) {
          mean += value_of_lane(coding, lane_at(words, coding.bits, e)) / norm / kRanks;
        }
        const double step_width = 1.0 / code_max(coding.bits);
        const double smallest = std::exp2(1.0 - code_max(coding.bits));
        const double value = value_of_lane(coding, lane_at(merged, coding.bits, e)) / norm;
        // In double a mean on a level may land just below it: the rounding is certain there.
        Interval interval = interval_of(coding, mean, step_width, smallest);
        errors.add(value, interval);
      }
    }
    expect_law(errors, describe(coding));
  }
}

/** r(e) of the sum of a node, by docs/FORMAT.md, section 10. */
uint32_t node_threshold(const RandomSite& site, uint64_t e) {
  const Strata strata = strata_of(site.node, site.nodes);
  const auto group_of = [&](Draw draw, uint32_t rank, uint64_t group) {
    return random_group(random_stream(site.key, site.step, site.index, draw, rank, 1), group);
  };
  const auto bits_of_value = [&](Draw draw, uint32_t rank) {
    const PhiloxBlock words = group_of(draw, rank, e / kGroupValues);
    return value_bits(words.word[e / kWordValues % 4], static_cast<uint32_t>(e));
  };
  const FactorWords factors = factor_words(group_of(Draw::strata_a, 0, 0));
  const uint32_t offset = stratum_offset(strata, factor_bits(factors, e / kGroupValues));
  return correlated_uniform(strata, bits_of_value(Draw::encode_again, site.rank), offset,
                            bits_of_value(Draw::strata_b, 0));
}

/** Codes that the sum of a node becomes, one rank of which has one operand. */
Words node_sum(const Coding& coding, const std::vector<Words>& operands, const RandomSite& site,
               uint64_t first_value, size_t value_count) {
  Words words(words_for(coding.bits, value_count), 0);
  const auto ranks = static_cast<int32_t>(coding.ranks), steps = static_cast<int32_t>(coding.steps);
  const Scale scale = linear_scale(static_cast<float>(ranks * steps), coding.steps);
  for (size_t e = 0; e < value_count; ++e) {
    int32_t sum = -ranks * steps;
    for (const Words& operand : operands) {
      sum += static_cast<int32_t>(lane_at(operand, coding.bits, e));
    }
    const uint32_t threshold = node_threshold(site, first_value + e);
    const uint32_t lane =
        linear_encode<false>(static_cast<float>(sum), scale, coding.steps, threshold);
    words[e * coding.bits / 32] |= lane << (e * coding.bits % 32);
  }
  return words;
}

TEST(Law, SumsOfNodes_ThresholdsOfTheNodesStrata) {
  constexpr size_t kValues = 700;
  for (const uint8_t bits : {8, 4}) {
    for (const uint32_t ranks : {2u, 3u, 4u}) {
      const Coding coding =
          coding_for(Levels::linear, bits, Combine::average, ranks, 0, Rounding::correlated);
      std::vector<Words> operands;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        operands.push_back(close_codes(coding, rank, kValues));
      }
      for (const uint32_t nodes : {2u, 3u, 4u, 200u}) {
        RandomSite site{17, 3, 4, 5, 1};
        site.node = nodes - 1;
        site.nodes = nodes;
        const Call call{scalar_stages(), coding, site, 4096};
        EXPECT_EQ(reduce_many(call, operands, kValues, 1),
                  node_sum(coding, operands, site, 4096, kValues))
            << describe(coding) << " nodes " << nodes;
      }
    }
  }
}

/** Of N nodes with the same sums the mean has a fraction of 1 / N^2 of a step at most, where
 *  independent roundings leave f (1 - f) / N. */
TEST(Law, SumsOfNodes_ErrorsCancel) {
  constexpr size_t kValues = 4096, kSteps = 64;
  constexpr uint32_t kRanks = 3;
  const Coding coding =
      coding_for(Levels::linear, 8, Combine::average, kRanks, 0, Rounding::correlated);
  std::vector<Words> operands;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    operands.push_back(close_codes(coding, rank, kValues));
  }
  for (const uint32_t nodes : {2u, 3u, 4u, 8u}) {
    double error_sum = 0, squares = 0, independent = 0;
    for (uint32_t step = 0; step < kSteps; ++step) {
      std::vector<double> means(kValues, 0);
      for (uint32_t node = 0; node < nodes; ++node) {
        Call call{scalar_stages(), coding, {17, step, 4, 3 * node, 1}};
        call.site.node = node;
        call.site.nodes = nodes;
        const Words words = reduce_many(call, operands, kValues, 1);
        for (size_t e = 0; e < kValues; ++e) {
          means[e] += value_of_lane(coding, lane_at(words, 8, e));
        }
      }
      for (size_t e = 0; e < kValues; ++e) {
        double exact = 0;
        for (const Words& operand : operands) {
          exact += value_of_lane(coding, lane_at(operand, 8, e)) / kRanks;
        }
        const double fraction = exact - std::floor(exact), error = means[e] / nodes - exact;
        error_sum += error;
        squares += error * error;
        independent += fraction * (1 - fraction) / nodes;
      }
    }
    EXPECT_LE(std::fabs(error_sum), 5 * std::sqrt(independent)) << nodes;
    EXPECT_LT(squares, (nodes < 4 ? 0.75 : 0.4) * independent) << nodes;
  }
}

/** Correlation of the rounding errors of equal values under two sites. */
double correlation(const Coding& coding, const RandomSite& one, const RandomSite& other) {
  constexpr size_t kValues = 1u << 18;
  const Floats values = spread_values(coding, kValues);
  const Floats a =
      dequantize({scalar_stages(), coding}, quantize({scalar_stages(), coding, one}, values, 1),
                 kValues, 1, GQSGD_MEAN);
  const Floats b =
      dequantize({scalar_stages(), coding}, quantize({scalar_stages(), coding, other}, values, 1),
                 kValues, 1, GQSGD_MEAN);
  double product = 0, squares_a = 0, squares_b = 0;
  for (size_t e = 0; e < kValues; ++e) {
    const double error_a = static_cast<double>(a[e]) - values[e];
    const double error_b = static_cast<double>(b[e]) - values[e];
    product += error_a * error_b;
    squares_a += error_a * error_a;
    squares_b += error_b * error_b;
  }
  return product / std::sqrt(squares_a * squares_b);
}

TEST(Law, RanksStepsIndicesAndSeeds_RoundIndependently) {
  const RandomSite base{17, 3, 4, 5, 0};
  RandomSite others[4] = {base, base, base, base};
  others[0].rank = 6;
  others[1].step = 4;
  others[2].index = 5;
  others[3].key = 18;
  for (const Coding& coding : code_formats(1, 0)) {
    for (const RandomSite& other : others) {
      // Exponential errors differ in size by value, so that fewer of them count.
      EXPECT_LE(std::fabs(correlation(coding, base, other)), 0.03) << describe(coding);
    }
    EXPECT_NEAR(correlation(coding, base, base), 1, 1e-9) << describe(coding);
  }
}

}  // namespace
}  // namespace gq::test
