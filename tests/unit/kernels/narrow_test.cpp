// Element types: every float16 and bfloat16 as input, exact probabilities of rounded outputs.
#include "kernels/codec/narrow.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

/** A narrow type by its fields; exact in double. */
struct NarrowType {
  const char* name;
  int mantissa_bits;
  int exponent_bits;
  uint16_t (*at_random)(float, uint32_t);
  uint16_t (*to_nearest)(float, uint32_t);

  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  /** The value of a magnitude's pattern; of infinity, the number that would follow the largest. */
  double value(uint32_t pattern) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int field = static_cast<int>(pattern >> mantissa_bits);
    const double mantissa = pattern & ((1u << mantissa_bits) - 1);
    const double hidden = field == 0 ? 0 : std::ldexp(1, mantissa_bits);
    return std::ldexp(mantissa + hidden, (field == 0 ? 1 : field) - bias - mantissa_bits);
  }
};

const NarrowType kTypes[] = {
    {"float16", 10, 5, float_to_half<false>, float_to_half<true>},
    {"bfloat16", 7, 8, float_to_bfloat<false>, float_to_bfloat<true>},
};

TEST(Narrow, EveryHalfAndBfloat_BecomesItsFloat) {
  for (uint32_t pattern = 0; pattern < 0x8000; ++pattern) {
    for (const uint32_t sign : {0u, 0x8000u}) {
      const float half = half_to_float(static_cast<uint16_t>(pattern | sign));
      const float bfloat = bfloat_to_float(static_cast<uint16_t>(pattern | sign));
      ASSERT_EQ(std::signbit(half), sign != 0) << pattern;
      ASSERT_EQ(std::signbit(bfloat), sign != 0) << pattern;
      if (pattern < kTypes[0].infinity()) {
        ASSERT_EQ(std::fabs(half), kTypes[0].value(pattern)) << pattern;
      } else {
        ASSERT_EQ(std::isnan(half), pattern != kTypes[0].infinity()) << pattern;
        ASSERT_FALSE(std::isfinite(half));
      }
      if (pattern < kTypes[1].infinity()) {
        ASSERT_EQ(std::fabs(bfloat), kTypes[1].value(pattern)) << pattern;
      }
    }
  }
}

TEST(Narrow, EveryFiniteNarrowNumber_AnyRandomWord_ComesBack) {
  for (const NarrowType& type : kTypes) {
    for (uint32_t pattern = 0; pattern <= type.infinity(); ++pattern) {
      const float value =
          pattern == type.infinity() ? INFINITY : static_cast<float>(type.value(pattern));
      for (const uint32_t bits : {0u, 0x80000000u, ~0u}) {
        ASSERT_EQ(type.at_random(value, bits), pattern) << type.name;
        ASSERT_EQ(type.to_nearest(value, bits), pattern) << type.name;
        const uint32_t negative = pattern == 0 ? 0 : pattern | 0x8000;
        ASSERT_EQ(type.at_random(-value, bits), negative) << type.name;
        ASSERT_EQ(type.to_nearest(-value, bits), negative) << type.name;
      }
    }
  }
}

/** The number of 32-bit words that round up, by bisection; the outcome must be one of two. */
uint64_t words_up(const NarrowType& type, float value, uint32_t low) {
  uint64_t below = 0, above = uint64_t{1} << 32;
  while (below < above) {
    const uint64_t middle = below + (above - below) / 2;
    const uint32_t result = type.at_random(value, static_cast<uint32_t>(middle));
    EXPECT_TRUE(result == low || result == low + 1) << type.name << " " << value;
    if (result > low) {
      above = middle;
    } else {
      below = middle + 1;
    }
  }
  return (uint64_t{1} << 32) - below;
}

TEST(Narrow, Outputs_RoundUpWithTheExactProbability) {
  for (const NarrowType& type : kTypes) {
    const double largest = type.value(type.infinity() - 1);
    for (uint32_t k = 0; k < 20000; ++k) {
      const int exponent = static_cast<int>(mix(k) % 60) - 45 - (type.exponent_bits == 8 ? 90 : 0);
      const float value = static_cast<float>(std::ldexp(1 + uniform_at(2, k), exponent));
      if (value >= largest) continue;
      const uint32_t low = type.at_random(value, 0);
      ASSERT_LE(type.value(low), value);
      ASSERT_GT(type.value(low + 1), value);
      const double width = type.value(low + 1) - type.value(low);
      const double exact = std::floor((value - type.value(low)) / width * 0x1p32);
      ASSERT_EQ(static_cast<double>(words_up(type, value, low)), exact) << type.name << value;
    }
  }
}

TEST(Narrow, Nearest_IeeeRoundingToEven) {
  for (const NarrowType& type : kTypes) {
    for (uint32_t k = 0; k < 200000; ++k) {
      const uint32_t low = static_cast<uint32_t>(mix(k) % type.infinity());
      const double middle = (type.value(low) + type.value(low + 1)) / 2;
      const float tie = static_cast<float>(middle);
      if (static_cast<double>(tie) != middle) continue;
      ASSERT_EQ(type.to_nearest(tie, 0), low + (low & 1)) << type.name << " " << tie;
      ASSERT_EQ(type.to_nearest(std::nextafter(tie, 0.0f), 0), low) << type.name;
      ASSERT_EQ(type.to_nearest(std::nextafter(tie, INFINITY), 0), low + 1) << type.name;
    }
  }
}

TEST(Narrow, TooLarge_Infinite_NanHasOnePattern) {
  for (const NarrowType& type : kTypes) {
    const float largest = static_cast<float>(type.value(type.infinity() - 1));
    const float beyond = std::nextafter(largest, INFINITY);
    for (const uint32_t bits : {0u, ~0u}) {
      EXPECT_EQ(type.at_random(beyond, bits), type.infinity()) << type.name;
      EXPECT_EQ(type.at_random(-beyond, bits), type.infinity() | 0x8000) << type.name;
      EXPECT_EQ(type.at_random(INFINITY, bits), type.infinity()) << type.name;
      EXPECT_EQ(type.at_random(-FLT_MAX, bits), type.infinity() | 0x8000) << type.name;
    }
    EXPECT_EQ(type.to_nearest(beyond, 0), type.infinity() - 1) << type.name;
    const uint32_t quiet = type.infinity() | 1u << (type.mantissa_bits - 1);
    for (const uint32_t nan : {0x7f800001u, 0xffc00000u, 0x7fffffffu}) {
      EXPECT_EQ(type.at_random(float_of(nan), ~0u), quiet) << type.name;
      EXPECT_EQ(type.to_nearest(float_of(nan), 0), quiet) << type.name;
    }
  }
}

TEST(Narrow, HalvesThatRoundToZero_LoseTheirSign) {
  EXPECT_EQ(float_to_half<false>(-0x1p-30f, 0), 0);
  EXPECT_EQ(float_to_half<false>(-0x1p-30f, ~0u), 0x8001);
  EXPECT_EQ(float_to_half<true>(-0x1p-30f, 0), 0);
  EXPECT_EQ(float_to_half<false>(-0.0f, ~0u), 0);
  EXPECT_EQ(float_to_bfloat<false>(-float_of(1), 0), 0);
}

}  // namespace
}  // namespace gq::test
