// Quantize as devices compute it, codes raised to the leading bits of words and packed from there,
// against what the codec says of one value: on both sides of every value's threshold.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "kernels/codec/exponential_words.h"
#include "kernels/codec/linear.h"
#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

uint32_t noise(uint64_t seed) { return static_cast<uint32_t>(mix(seed)); }

/** The word in which value e has these random bits. */
uint32_t word_with_bits(uint32_t bits, uint32_t value) {
  return rotate_right(bits, (32 - 8 * ((value + 1) % kWordValues)) % 32);
}

/** Words of codes by exponential_word against lanes, for all codes and signs in every lane. */
template <uint32_t kBits, uint32_t kMantissaBits>
void expect_packed_exponentials() {
  constexpr uint32_t kPerWord = 32 / kBits;
  for (uint32_t k = 0; k < (2u << (kBits - 1)) * kPerWord * 8; ++k) {
    uint32_t from[kPerWord], value[kPerWord], expected = 0;
    for (uint32_t e = 0; e < kPerWord; ++e) {
      const bool is_here = e == k % kPerWord;
      const uint32_t any = is_here ? k / kPerWord : noise(k * kPerWord + e);
      const uint32_t c = any & code_max(kBits), negative = (any >> (kBits - 1)) & 1;
      from[e] = (c + (kMantissaBits > 0 ? 0 : 64)) << 23 | noise(k + e) >> 9;
      value[e] = negative << 31 | noise(k + e + 9) >> 1;
      const Byte coded = static_cast<Byte>(c | negative << (kBits - 1));
      expected |= placed<kBits>(without_negative_zero<kBits>(coded), e);
    }
    ASSERT_EQ((exponential_word<kBits, kMantissaBits>(from, value)), expected) << k;
  }
}

TEST(Raised, PackedExponentialCodes_EqualLanes) {
  expect_packed_exponentials<8, 0>();
  expect_packed_exponentials<8, 2>();
  expect_packed_exponentials<4, 0>();
}

/** Norms of all sizes, and those that leave no codes. */
std::vector<float> norms_of_all_sizes() {
  std::vector<float> norms = {0, NAN, INFINITY, FLT_MAX, 0x1p-149f, 0x1.8p-140f};
  for (int exponent = -127; exponent < 128; ++exponent) {
    norms.push_back(std::ldexp(1.0f, exponent));
    norms.push_back(
        std::ldexp(1 + float_of(0x3f800000u | noise(exponent + 999) >> 9), exponent - 1));
  }
  return norms;
}

/** Values around the sizes where products of this norm become zero, denormal, or more than it. */
Floats values_nontemporal(float norm, uint64_t seed) {
  Floats values = {0, -0.0f, NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, norm, -norm};
  for (const int exponent : {-149, -127, -126, -125, -100, -88, -64, -63, -62, -31, -24, -23,
                             -22,  -8,   -7,   -1,   0,    1,   2,   7,   8,   31,  32,  100}) {
    for (uint32_t k = 0; k < 3; ++k) {
      const float mantissa = float_of(0x3f800000u | (k == 0 ? 0 : noise(seed += 7) >> 9));
      const float value = std::ldexp(norm * mantissa, exponent);
      values.push_back(noise(seed) & 1 ? value : -value);
      values.push_back(float_of(bits_of(value) + 1));
    }
  }
  return values;
}

/** What the scalar codec says of all 2^23 uniform numbers changes at one of them: random bits on
 *  either side of it, at both ends, and any. */
template <typename CodeOf, typename RaisedOf>
void expect_equal_codes(uint64_t seed, CodeOf code_of, RaisedOf raised_of) {
  uint32_t below = 0, above = 1u << 23;  // the first number with the last one's code
  const uint32_t last = code_of(kUniformMask);
  while (below < above) {
    const uint32_t middle = (below + above) / 2;
    if (code_of(middle) == last) {
      above = middle;
    } else {
      below = middle + 1;
    }
  }
  for (const uint32_t uniform : {0u, below - 1, below, kUniformMask, noise(seed)}) {
    const uint32_t bits = (noise(seed + 1) & ~kUniformMask) | (uniform & kUniformMask);
    for (uint32_t e = 0; e < 4; ++e) ASSERT_EQ(raised_of(bits, e), code_of(bits)) << uniform;
  }
}

template <bool kNearest>
void expect_raised_linear(float norm, uint32_t steps, const Floats& values) {
  const Scale scale = linear_scale(norm, steps), raised = folded_linear_scale(scale);
  for (const float value : values) {
    SCOPED_TRACE(testing::Message() << std::hexfloat << value << " of " << norm << " " << steps);
    expect_equal_codes(
        bits_of(value),
        [&](uint32_t bits) { return linear_encode<kNearest>(value, scale, steps, bits); },
        [&](uint32_t bits, uint32_t e) {
          const uint32_t addend = kNearest ? linear_addend(kUniformHalf, steps)
                                           : linear_addend_in(word_with_bits(bits, e), e, steps);
          return linear_at_24(value * raised.power, raised, addend) >> 24;
        });
  }
}

template <uint32_t kBits, uint32_t kMantissaBits, bool kNearest>
void expect_raised_exponentials(float norm, uint32_t headroom, const Floats& values) {
  const Scale scale = exponential_scale(norm, kBits, headroom, kMantissaBits);
  const Scale raised = folded_exponential_scale(scale);
  const uint32_t top = exponential_top_pattern<kMantissaBits>(raised);
  for (const float value : values) {
    SCOPED_TRACE(testing::Message() << std::hexfloat << value << " of " << norm);
    expect_equal_codes(
        bits_of(value),
        [&](uint32_t bits) {
          const Byte lane = exponential_round<kBits, kMantissaBits, kNearest>(value, scale, bits);
          return lane & code_max(kBits);
        },
        [&](uint32_t bits, uint32_t) {
          const uint32_t from =
              exponential_at_23<kMantissaBits, kNearest>(value * raised.power, raised, top, bits);
          return (from >> 23) - (kMantissaBits > 0 ? 0 : kSmallestLevelField);
        });
  }
}

template <bool kNearest>
void expect_raised_lanes(float norm, const Floats& values) {
  for (const uint32_t steps : {1u, 7u, 100u, 127u}) {
    expect_raised_linear<kNearest>(norm, steps, values);
  }
  for (const uint32_t headroom : {0u, 1u, 30u, 64u}) {
    expect_raised_exponentials<8, 0, kNearest>(norm, headroom, values);
    expect_raised_exponentials<8, 2, kNearest>(norm, headroom, values);
  }
  expect_raised_exponentials<4, 0, kNearest>(norm, 0, values);
}

TEST(Raised, Lanes_EqualSingleValues) {
  for (const float norm : {3.0f, 0.7f}) {
    const Floats values = edge_biased_values(3, 5000, norm);
    expect_raised_lanes<false>(norm, values);
    expect_raised_lanes<true>(norm, values);
  }
}

TEST(Raised, Lanes_NormsOfAllSizes_EqualSingleValues) {
  for (const float norm : norms_of_all_sizes()) {
    const Floats values = values_nontemporal(is_finite(norm) ? norm : 1, bits_of(norm));
    expect_raised_lanes<false>(norm, values);
    expect_raised_lanes<true>(norm, values);
  }
}

// Otherwise each value would cost an instruction more.
TEST(Raised, FactorsOfOrdinaryNorms_Folded) {
  for (const float norm : {0x1p-60f, 0.01f, 1.0f, 1.99f}) {
    EXPECT_EQ(folded_exponential_scale(exponential_scale(norm, 8, 0, 0)).power, 1) << norm;
  }
  for (const float norm : {0x1p-60f, 0.01f, 1.0f, 2.0f, 1e18f}) {
    EXPECT_EQ(folded_linear_scale(linear_scale(norm, 127)).power, 1) << norm;
    EXPECT_EQ(folded_exponential_scale(exponential_scale(norm, 4, 0, 0)).power, 1) << norm;
  }
}

template <uint32_t kBits>
void expect_packed_linear(uint32_t most) {
  constexpr uint32_t kPerWord = 32 / kBits;
  for (uint32_t k = 0; k < (most + 1) * kPerWord; ++k) {
    uint32_t from[kPerWord], expected = 0;
    for (uint32_t e = 0; e < kPerWord; ++e) {
      const uint32_t here = e == k % kPerWord ? k / kPerWord : noise(k * kPerWord + e) % (most + 1);
      from[e] = here << 24 | noise(k + e) >> 8;
      expected |= placed<kBits>(here, e);
    }
    ASSERT_EQ((linear_word<kBits>(from)), expected) << k;
  }
}

TEST(Raised, PackedLinearCodes_EqualLanes) {
  expect_packed_linear<8>(255);
  expect_packed_linear<4>(15);
}

}  // namespace
}  // namespace gq::test
