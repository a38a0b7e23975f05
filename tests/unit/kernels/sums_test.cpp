// The owner's encodings of wide sums: scales of rescale for every norm and peak, subtractive codes
// over all thresholds, bits_down.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "kernels/codec/block_norm.h"
#include "kernels/codec/linear.h"
#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

/** Checks that a peak fits the norm of its sums but for one rounding, and the mean its scale. */
void expect_rescaled(uint32_t code, float peak, double full) {
  const float norm = norm_from_code(static_cast<uint16_t>(code));
  const Rescaled made = rescaled(norm, peak, full);
  const std::string what = "norm code " + std::to_string(code) + " peak " + std::to_string(peak) +
                           " of " + std::to_string(full);
  ASSERT_GT(made.code, 0) << what;
  ASSERT_LE(made.code, kNormCodeMax) << what;
  ASSERT_TRUE(std::isfinite(made.sum_norm) && made.sum_norm > 0) << what;
  const float next = std::nextafter(made.sum_norm, INFINITY);
  ASSERT_GE(next, peak) << what << ": clamped by more than a rounding";
  const double exact = static_cast<double>(norm) * peak / full;
  const float scale = norm_from_code(made.code);
  ASSERT_TRUE(scale >= exact || scale == FLT_MAX) << what;
  ASSERT_LE(scale, exact * (1 + 1.0 / 127) + 0x1p-133) << what;
}

TEST(Rescaled, PeaksOfLinearSums_ClampedByARoundingAtMost) {
  for (const uint32_t ranks : {1u, 2u, 3u, 16u, 1000u, 100000u}) {
    for (const uint32_t steps : {7u, 127u}) {
      const double full = static_cast<double>(ranks) * steps;
      for (uint32_t k = 0; k < 30000; ++k) {
        const uint32_t code = 1 + static_cast<uint32_t>(mix(k) % kNormCodeMax);
        const uint64_t most = static_cast<uint64_t>(full);
        const float peak = static_cast<float>(1 + mix(k + 5) % most);
        expect_rescaled(code, peak, full);
      }
    }
  }
}

TEST(Rescaled, EveryNorm_EveryPeakOfAFewRanks_InRange) {
  for (uint32_t code = 1; code <= kNormCodeMax; ++code) {
    for (uint32_t peak = 1; peak <= 381; peak += 1 + peak / 3) {
      expect_rescaled(code, static_cast<float>(peak), 381);
    }
    expect_rescaled(code, 381, 381);
    for (const float small : {0x1p-126f, 0x1.8p-100f, 1.75f * 5})
      expect_rescaled(code, small, 8.75);
  }
}

TEST(Rescaled, ZeroAndNan_CodesOfTheirOwn) {
  EXPECT_EQ(rescaled(0, 1, 127).code, 0);
  EXPECT_EQ(rescaled(1, 0, 127).code, 0);
  EXPECT_EQ(rescaled(NAN, 1, 127).code, kNormCodeNan);
  EXPECT_EQ(rescaled(NAN, 0, 127).code, kNormCodeNan);
  EXPECT_EQ(rescaled(NAN, 1, 127).sum_norm, 0);
}

/** With u over all thresholds the error is each of 2^23 equally spaced numbers once, so its mean is
 *  half of their distance; and so for every value. */
TEST(Subtractive, AnyValue_ErrorsUniformOverHalfAStep) {
  for (const uint32_t steps : {7u, 127u}) {
    const Scale scale = linear_scale(static_cast<float>(steps), steps);
    const float step = subtractive_step(static_cast<float>(steps), 1, steps);
    ASSERT_EQ(step, 1);
    for (const float value : {0.0f, 0.25f, -0.75f, 3.0f, 0x1p-20f, -1.9f, static_cast<float>(steps),
                              -static_cast<float>(steps)}) {
      double sum = 0;
      uint32_t far = 0;
      for (uint32_t uniform = 0; uniform <= kUniformMask; ++uniform) {
        const uint32_t lane = linear_encode<false>(value, scale, steps, uniform);
        ASSERT_LE(lane, 2 * steps);
        const double error = static_cast<double>(subtractive_decode(lane, steps, step, uniform)) -
                             static_cast<double>(value);
        far += std::fabs(error) > 0.5 + 0x1p-17;  // and the rounding of K to float32
        sum += error;
      }
      EXPECT_EQ(far, 0u) << value;
      EXPECT_LE(std::fabs(sum / (1u << kUniformBits)), 0x1p-22) << value << " of " << steps;
    }
  }
}

TEST(Subtractive, LargestMeans_Finite) {
  for (const uint32_t top : {7u, 127u}) {
    for (const float scale : {FLT_MAX, 0x1.fffffcp127f, 0x1.fep127f, 0x1p127f}) {
      const float step = subtractive_step(scale, 1, top);
      ASSERT_TRUE(std::isfinite(subtractive_decode(2 * top, top, step, 0))) << scale;
      ASSERT_TRUE(std::isfinite(subtractive_decode(0, top, step, kUniformMask))) << scale;
      ASSERT_NEAR(step * top / scale, 1, 0.5 / top + 0x1p-20);
    }
  }
}

class Sums : public testing::TestWithParam<const Stages*> {};

std::string name_of(const testing::TestParamInfo<const Stages*>& info) { return info.param->name; }

INSTANTIATE_TEST_SUITE_P(Isa, Sums, testing::ValuesIn(stages_here()), name_of);

/** Codes of ranks that agree in part, so that peaks differ from block to block. */
std::vector<Words> operands_of(const Coding& coding, size_t value_count) {
  std::vector<Words> operands;
  for (uint32_t rank = 0; rank < coding.ranks; ++rank) {
    Words words(words_for(coding.bits, value_count), 0);
    for (size_t e = 0; e < value_count; ++e) {
      const uint32_t reach = 1 + static_cast<uint32_t>(mix(e / coding.block) % coding.steps);
      const uint32_t lane = coding.steps - reach + mix(rank * 77 + e) % (2 * reach + 1);
      const uint32_t per_word = 32 / coding.bits;
      words[e / per_word] |= lane << (coding.bits * (e % per_word));
    }
    operands.push_back(words);
  }
  return operands;
}

/** Each value of the mean comes back within one step of its own block's scale. */
void expect_close_means(const Stages& stages, const Coding& coding, size_t value_count) {
  const std::vector<Words> operands = operands_of(coding, value_count);
  std::vector<const uint32_t*> pointers;
  for (const Words& words : operands) pointers.push_back(words.data());
  const std::vector<uint16_t> norms(norm_count(coding.block, false, value_count), 0x3f80);
  std::vector<uint16_t> scales(norms.size());
  Words words(words_for(coding.bits_down, value_count));
  const RandomSite site{7, 0, 0, 1, 1};
  stages.reduce_many({coding,
                      site,
                      {0, value_count},
                      pointers.data(),
                      {nullptr, norms.data()},
                      words.data(),
                      scales.data(),
                      nullptr});
  Floats values(value_count);
  stages.dequantize({coding,
                     site,
                     {0, value_count},
                     words.data(),
                     {nullptr, scales.data()},
                     GQSGD_FLOAT32,
                     GQSGD_MEAN,
                     values.data(),
                     nullptr});
  const bool halves = coding.rounding_down == RoundingDown::subtractive;
  for (size_t e = 0; e < value_count; ++e) {
    double sum = 0;
    for (const Words& operand : operands) {
      sum += static_cast<double>(lane_at(operand, coding.bits, e)) - coding.steps;
    }
    const double mean = sum / coding.steps / coding.ranks;
    const double step = norm_from_code(scales[e / coding.block]) / coding.steps_down;
    ASSERT_LE(std::fabs(values[e] - mean), step * (halves ? 0.501 : 1.001))
        << describe(coding) << e;
    if (sum == 0 && !halves) {
      ASSERT_EQ(bits_of(values[e]), 0u) << "zeros stay zero";
    }
  }
}

TEST_P(Sums, RescaledMeans_WithinAStepOfTheirBlock) {
  for (const uint32_t block : {32u, 128u, 256u, 1024u}) {
    for (const uint8_t bits : {4, 8}) {
      for (const uint8_t bits_down : {4, 8}) {
        for (const RoundingDown down : {RoundingDown::random, RoundingDown::subtractive}) {
          Format format;
          format.bits = bits;
          format.bits_down = bits_down;
          format.block = block;
          format.rescale = true;
          format.rounding_down = down;
          expect_close_means(*GetParam(), coding_of(format, 5, 0), 5000);
        }
      }
    }
  }
}

}  // namespace
}  // namespace gq::test
