// Exactness of the codec by enumeration and bisection: every word, every pair of codes, every
// mantissa of a norm. No sampling; see law_test.cpp for that.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/codec/block_norm.h"
#include "kernels/codec/exponential.h"
#include "kernels/codec/linear.h"
#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

constexpr uint32_t kUniforms = 1u << kUniformBits;
constexpr int32_t kNegativeZero = 1 << 20;  // no level; every test fails on it

/** One format as a function of the uniform: signed levels in rising order, and their values in
 * units of the norm. */
struct Encoder {
  Levels levels;
  uint32_t bits;
  uint32_t steps;     // linear
  uint32_t headroom;  // exponential
  uint32_t mantissa_bits = 0;

  Scale scale(float norm) const {
    return levels == Levels::linear ? linear_scale(norm, steps)
                                    : exponential_scale(norm, bits, headroom, mantissa_bits);
  }

  /** Position among the signed levels. */
  int32_t level(float value, const Scale& s, uint32_t uniform) const {
    if (levels == Levels::linear) {
      return static_cast<int32_t>(linear_encode<false>(value, s, steps, uniform)) -
             static_cast<int32_t>(steps);
    }
    const uint32_t lane =
        mantissa_bits > 0
            ? without_negative_zero<8>(exponential_round<8, 2, false>(value, s, uniform))
        : bits == 8 ? without_negative_zero<8>(exponential_round<8, 0, false>(value, s, uniform))
                    : without_negative_zero<4>(exponential_round<4, 0, false>(value, s, uniform));
    const int32_t c = static_cast<int32_t>(lane & code_max(bits));
    if (c == 0 && lane != 0) return kNegativeZero;
    return lane > code_max(bits) ? -c : c;
  }

  double value(int32_t level) const {
    if (levels == Levels::linear) return level / static_cast<double>(steps);
    const uint32_t top = code_max(bits) - headroom;
    return std::copysign(units(static_cast<uint32_t>(std::abs(level))) / units(top), level);
  }

  /** docs/FORMAT.md's value(c) of exponential levels, in units of the smallest power of two. */
  double units(uint32_t c) const {
    const uint32_t sublevels = 1u << mantissa_bits;
    const double fraction = static_cast<double>(c % sublevels) / sublevels;
    if (c < sublevels) return fraction;
    return std::ldexp(1 + fraction, static_cast<int>(c >> mantissa_bits) - 1);
  }
};

const Encoder kEncoders[] = {
    {Levels::linear, 8, 127, 0},       {Levels::linear, 8, 31, 0},
    {Levels::linear, 8, 1, 0},         {Levels::linear, 4, 7, 0},
    {Levels::exponential, 8, 0, 0},    {Levels::exponential, 8, 0, 3},
    {Levels::exponential, 8, 0, 64},   {Levels::exponential, 4, 0, 0},
    {Levels::exponential, 8, 0, 0, 2},
};

std::string describe(const Encoder& e) {
  return (e.levels == Levels::linear ? "linear" : "exponential") + std::to_string(e.bits) +
         " steps " + std::to_string(e.steps) + " headroom " + std::to_string(e.headroom) +
         " mantissa bits " + std::to_string(e.mantissa_bits);
}

/** Checks E[decoded] against the value: at most 2^-23 of the local step and 2^-21 of the value.
 * With m mantissa bits a step is 2^-m of what the float32 is rounded to. */
void expect_small_bias(const Encoder& encoder, float norm, float value, int32_t low,
                       uint32_t uniforms_up) {
  const double probability = uniforms_up / static_cast<double>(kUniforms);
  const double step = (encoder.value(low + 1) - encoder.value(low)) * norm;
  const double mean = encoder.value(low) * norm + probability * step;
  const double rounding = std::ldexp(0x1p-23, static_cast<int>(encoder.mantissa_bits));
  EXPECT_LE(std::fabs(mean - value), rounding * step + 0x1p-21 * std::fabs(value))
      << describe(encoder) << " norm " << norm << " value " << value;
}

/** The first uniform that gives the upper of the two levels, if none falls back below it. */
uint32_t threshold_by_bisection(const Encoder& encoder, const Scale& s, float value, int32_t low) {
  uint32_t below = 0, above = kUniforms;
  while (below < above) {
    const uint32_t middle = below + (above - below) / 2;
    if (encoder.level(value, s, middle) > low) {
      above = middle;
    } else {
      below = middle + 1;
    }
  }
  return below;
}

TEST(Exact, Codes_UniformGrows_NeverFall) {
  for (const Encoder& encoder : kEncoders) {
    const float norm = 0.8125f;
    const Scale scale = encoder.scale(norm);
    for (const float value : edge_biased_values(11, 64 / 8, norm)) {
      const int32_t low = encoder.level(value, scale, 0);
      int32_t previous = low;
      uint32_t up = 0, falls = 0;
      for (uint32_t uniform = 0; uniform < kUniforms; ++uniform) {
        const int32_t level = encoder.level(value, scale, uniform);
        falls += level < previous || level > low + 1;
        up += level > low;
        previous = level;
      }
      EXPECT_EQ(falls, 0u) << describe(encoder) << " value " << value;
      EXPECT_EQ(threshold_by_bisection(encoder, scale, value, low), kUniforms - up);
      expect_small_bias(encoder, norm, value, low, up);
    }
  }
}

TEST(Exact, Bias_ManyValuesAndNorms_WithinItsBound) {
  constexpr size_t kValues = 100000 / 8;
  for (const Encoder& encoder : kEncoders) {
    for (size_t k = 0; k < kValues; ++k) {
      const int exponent = static_cast<int>(mix(k) % 200) - 100;
      const float norm = static_cast<float>(std::ldexp(1 + uniform_at(1, k), exponent));
      const float value = edge_biased_values(k, 1, norm)[0];
      const Scale scale = encoder.scale(norm);
      const int32_t low = encoder.level(value, scale, 0);
      EXPECT_LE(encoder.level(value, scale, kUniformMask), low + 1);
      const uint32_t threshold = threshold_by_bisection(encoder, scale, value, low);
      expect_small_bias(encoder, norm, value, low, kUniforms - threshold);
    }
  }
}

/** Whether the norm and its negative get their top codes from the least and the largest uniform,
 * and so, by monotony, from all. */
bool is_certain(const Encoder& encoder, float norm) {
  const Scale scale = encoder.scale(norm);
  const int32_t top = encoder.levels == Levels::linear
                          ? static_cast<int32_t>(encoder.steps)
                          : static_cast<int32_t>(code_max(encoder.bits) - encoder.headroom);
  return encoder.level(norm, scale, 0) == top && encoder.level(norm, scale, kUniformMask) == top &&
         encoder.level(-norm, scale, 0) == -top &&
         encoder.level(-norm, scale, kUniformMask) == -top;
}

TEST(Exact, NormItself_AllMantissas_TopCode) {
  for (const uint32_t steps : {1u, 2u, 3u, 5u, 7u, 31u, 42u, 63u, 127u}) {
    const Encoder encoder{Levels::linear, 8, steps, 0};
    uint32_t failures = 0;
    for (uint32_t mantissa = 0; mantissa < kUniforms; ++mantissa) {
      failures += !is_certain(encoder, float_of(0x3f800000u | mantissa));
    }
    EXPECT_EQ(failures, 0u) << describe(encoder);
  }
}

TEST(Exact, NormItself_AllExponents_TopCode) {
  for (const Encoder& encoder : kEncoders) {
    for (uint32_t k = 0; k < 200000; ++k) {
      const float norm = float_of(static_cast<uint32_t>(mix(k) % 0x7f7fffffu) + 1);
      ASSERT_TRUE(is_certain(encoder, norm)) << describe(encoder) << " norm " << norm;
    }
    for (const uint32_t bits : {1u, 2u, 0x007fffffu, 0x00800000u, 0x7f7fffffu, 0x7f000000u}) {
      ASSERT_TRUE(is_certain(encoder, float_of(bits))) << describe(encoder) << " bits " << bits;
    }
  }
}

TEST(Exact, EveryNormOfABlock_TopCode_NoOtherValueHigher) {
  for (const Encoder& encoder : kEncoders) {
    for (uint32_t code = 1; code <= kNormCodeMax; ++code) {
      const float norm = norm_from_code(static_cast<uint16_t>(code));
      ASSERT_TRUE(is_certain(encoder, norm)) << describe(encoder) << " code " << code;
    }
  }
}

TEST(Exact, NormZeroOrNotFinite_AnyValue_CodeZero) {
  const float values[] = {0,
                          -0.0f,
                          1,
                          -1,
                          INFINITY,
                          -INFINITY,
                          NAN,
                          -NAN,
                          float_of(0x7f7fffff),
                          float_of(0xff7fffff),
                          float_of(1),
                          float_of(0x80000001)};
  for (const Encoder& encoder : kEncoders) {
    for (const float norm : {0.0f, INFINITY, static_cast<float>(NAN), float_of(0x7f800001)}) {
      const Scale scale = encoder.scale(norm);
      for (const float value : values) {
        for (const uint32_t uniform : {0u, 1u, kUniformHalf, kUniformMask}) {
          ASSERT_EQ(encoder.level(value, scale, uniform), 0) << describe(encoder) << " " << value;
        }
      }
    }
  }
}

/** Probability of each number of leading zeros, 0..32, in a 32-bit uniform word. */
double zeros_probability(uint32_t zeros) {
  return std::ldexp(1.0, zeros < 32 ? -static_cast<int>(zeros) - 1 : -32);
}

double exponential_value8(uint32_t lane) {
  const int c = static_cast<int>(lane & 127);
  return c == 0 ? 0 : std::ldexp(lane & 128 ? -1.0 : 1.0, c - 1);
}

bool is_code8(uint32_t lane) { return lane != 128; }

TEST(Exact, SumsOfAllPairsOfExponentialCodes_ExactProbabilities) {
  for (uint32_t a = 0; a < 256; ++a) {
    for (uint32_t b = 0; b < 256; ++b) {
      if (!is_code8(a) || !is_code8(b)) continue;
      const double va = exponential_value8(a), vb = exponential_value8(b);
      const double larger = std::fabs(va) > std::fabs(vb) ? va : vb;
      const double smaller = larger == va ? vb : va;
      // The neighbour that the larger operand moves to, and how often it must.
      const double moved = larger * smaller >= 0 ? 2 * larger : larger / 2;
      double probability = smaller == 0 ? 0 : smaller / (moved - larger);
      if (va == -vb) probability = 0;
      if (probability < 0x1p-32) probability = 0;
      const bool saturated = std::fabs(moved) > 0x1p126;
      double counted = 0;
      for (uint32_t zeros = 0; zeros <= 32; ++zeros) {
        const uint8_t sum = exponential_sum(static_cast<uint8_t>(a), static_cast<uint8_t>(b),
                                            static_cast<uint8_t>(zeros));
        ASSERT_TRUE(is_code8(sum));
        const double value = exponential_value8(sum);
        if (va == -vb) {
          ASSERT_EQ(value, 0) << a << " " << b;
        } else if (value != larger) {
          ASSERT_EQ(value, moved) << a << " " << b << " zeros " << zeros;
          counted += zeros_probability(zeros);
        }
      }
      ASSERT_EQ(counted, saturated ? 0 : probability) << a << " " << b;
    }
  }
}

TEST(Exact, LeadingZeros_DecideAsTheFormatsComparison) {
  for (uint32_t k = 0; k < 100000; ++k) {
    const uint32_t bits = static_cast<uint32_t>(mix(k) >> 32) >> (k % 33 == 32 ? 31 : k % 33);
    for (uint64_t gap = 0; gap <= 40; ++gap) {
      const bool event = gap <= 32 && bits < (uint64_t{1} << (32 - gap));
      ASSERT_EQ(leading_zeros(bits) >= gap, event) << bits << " gap " << gap;
    }
  }
}

double exponential_value4(uint32_t lane) {
  const int c = static_cast<int>(lane & 7);
  return c == 0 ? 0 : std::ldexp(lane & 8 ? -1.0 : 1.0, c - 1);
}

struct Weights {
  uint32_t a, b;
};

const Weights kWeights[] = {{1, 1},
                            {1, 2},
                            {2, 1},
                            {3, 1},
                            {5, 3},
                            {7, 9},
                            {1, 16},
                            {100, 27},
                            {64, 64},
                            {1, (1u << 20) - 1},
                            {(1u << 20) - 1, 1},
                            {524287, 524289}};

/** The uniforms that give the higher of an average's outcomes, by bisection over all of them. */
uint32_t uniforms_with_next(const AverageOutcome& outcome) {
  const uint32_t at_zero = exponential_average(outcome, 0);
  uint32_t below = 0, above = kUniforms;
  while (below < above) {
    const uint32_t middle = below + (above - below) / 2;
    if (exponential_average(outcome, middle) != at_zero) {
      above = middle;
    } else {
      below = middle + 1;
    }
  }
  const bool starts_with_next = (at_zero & 7) > outcome.low;
  return starts_with_next ? below : kUniforms - below;
}

TEST(Exact, AveragesOfAllPairsOfExponentialCodes_ExactProbabilities) {
  for (const Weights w : kWeights) {
    for (uint32_t a = 0; a < 16; ++a) {
      for (uint32_t b = 0; b < 16; ++b) {
        if (a == 8 || b == 8) continue;
        const double mean = (w.a * exponential_value4(a) + w.b * exponential_value4(b)) /
                            (static_cast<double>(w.a) + w.b);
        const AverageOutcome outcome = exponential_average_outcome(a, b, w.a, w.b);
        const double low = exponential_value4(outcome.low);
        const double high = exponential_value4(outcome.low + 1 <= 7 ? outcome.low + 1 : 7);
        ASSERT_LE(low, std::fabs(mean));
        ASSERT_EQ(outcome.negative, mean < 0 ? 1u : 0u);
        const double probability = uniforms_with_next(outcome) / static_cast<double>(kUniforms);
        const double exact = high == low ? 0 : (std::fabs(mean) - low) / (high - low);
        ASSERT_LE(exact, 1);
        ASSERT_NEAR(probability, exact, 0x1p-23)
            << a << " " << b << " weights " << w.a << " " << w.b;
      }
    }
  }
}

TEST(Exact, Average_UniformGrows_NeverMovesDown) {
  for (const Weights w : {Weights{1, 1}, Weights{5, 3}, Weights{1, (1u << 20) - 1}}) {
    for (const uint32_t a : {15u, 7u, 1u, 12u}) {
      const AverageOutcome outcome = exponential_average_outcome(a, 3, w.a, w.b);
      double previous = -1e9;
      uint32_t falls = 0;
      for (uint32_t uniform = 0; uniform < kUniforms; ++uniform) {
        const double value = exponential_value4(exponential_average(outcome, uniform));
        falls += value < previous;
        previous = value;
      }
      EXPECT_EQ(falls, 0u) << a << " weights " << w.a << " " << w.b;
    }
  }
}

TEST(Exact, LinearAverage_AllWeightsAndLanes_FormatsDivision) {
  for (uint32_t k = 0; k < 3000000; ++k) {
    const uint32_t total = k < 5000 ? 2 + k : 2 + static_cast<uint32_t>(mix(k) % ((1u << 20) - 1));
    const uint32_t weight_a = 1 + static_cast<uint32_t>(mix(k + 7) % (total - 1));
    const Average average = average_of(weight_a, total - weight_a);
    const uint32_t a = k % 3 == 0 ? 254 : static_cast<uint32_t>(mix(k + 1) % 255);
    const uint32_t b = k % 5 == 0 ? 254 : static_cast<uint32_t>(mix(k + 2) % 255);
    const uint32_t bits = k % 7 == 0 ? ~0u : static_cast<uint32_t>(mix(k + 3));
    const uint64_t sum =
        uint64_t{weight_a} * a + uint64_t{total - weight_a} * b + ((uint64_t{bits} * total) >> 32);
    ASSERT_EQ(linear_average(a, b, average, bits), sum / total)
        << a << " " << b << " weights " << weight_a << " of " << total << " bits " << bits;
  }
}

TEST(Exact, LinearAverage_EveryMultipleOfTheTotal_DividesRight) {
  for (uint32_t total = 2; total <= 1u << 20;
       total = total < 3000 ? total + 1 : total * 9 / 8 + 1) {
    const Average average = average_of(1, total - 1);
    for (uint32_t quotient = 0; quotient <= 254; ++quotient) {
      const uint32_t low = quotient * total;
      ASSERT_EQ(mulhi(low, average.magic) >> average.shift, quotient) << total;
      ASSERT_EQ(mulhi(low + total - 1, average.magic) >> average.shift, quotient) << total;
    }
  }
}

TEST(Exact, LinearAverage_EqualWeights_TheGeneralOne) {
  const Average average = average_of(1, 1);
  for (uint32_t a = 0; a < 256; ++a) {
    for (uint32_t b = 0; b < 256; ++b) {
      const uint32_t word = static_cast<uint32_t>(mix(a * 256 + b));
      const uint32_t four = linear_average_equal8(a * 0x01010101u, b * 0x01010101u, word);
      for (uint32_t e = 0; e < 4; ++e) {
        ASSERT_EQ((four >> (8 * e)) & 255, linear_average(a, b, average, value_bits(word, e)));
      }
    }
  }
}

}  // namespace
}  // namespace gq::test
