// The rotation: an orthogonal matrix but for rounding, its own inverse, without overflow; stages
// that rotate are the same stages on values rotated before.
#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>

#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/rotated.h"

namespace gq::test {
namespace {

constexpr RandomSite kSite{0xABCDEF, 4, 5, 6, 0};
constexpr uint64_t kFirst = 7 * 1024;

class Rotation : public testing::TestWithParam<const Stages*> {
 protected:
  const Stages& stages() const { return *GetParam(); }

  uint32_t norm_bits(const Floats& values, bool rotated) const {
    uint32_t bits = 0;
    stages().norm({NormOrder::inf,
                   0,
                   rotated,
                   kSite,
                   {kFirst, values.size()},
                   values.data(),
                   GQSGD_FLOAT32,
                   &bits,
                   nullptr});
    return bits;
  }
};

std::string name_of(const testing::TestParamInfo<const Stages*>& info) { return info.param->name; }

INSTANTIATE_TEST_SUITE_P(Isa, Rotation, testing::ValuesIn(stages_here()), name_of);

/** The element of the Hadamard matrix is -1 to the number of ones that k and l share. */
TEST(Hadamard, EveryColumn_TheDefinition) {
  for (uint32_t column = 0; column < kRotationValues; ++column) {
    Floats values(kRotationValues);
    values[column] = 1;
    hadamard(values.data(), kRotationValues);
    for (uint32_t k = 0; k < kRotationValues; ++k) {
      ASSERT_EQ(values[k], std::popcount(k & column) % 2 == 0 ? 1 : -1) << k << " " << column;
    }
  }
}

TEST(Hadamard, Signs_EvenlySpread_DifferBetweenRotations) {
  int sum = 0, equal = 0;
  for (uint64_t e = 0; e < 64 * 1024; ++e) {
    sum += sign_of(kSite, e) == 0 ? 1 : -1;
    equal += sign_of(kSite, e) == sign_of(kSite, e + 1024) ? 1 : -1;
  }
  EXPECT_LE(std::abs(sum), 5 * 256);
  EXPECT_LE(std::abs(equal), 5 * 256);
}

TEST(Hadamard, Back_InverseToFewUlpsOfTheLargest) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Floats values = edge_biased_values(seed, 1024, std::ldexp(1.0f, static_cast<int>(seed)));
    const Floats back = rotated_back(kSite, kFirst, rotated_forth(kSite, kFirst, values));
    for (size_t e = 0; e < values.size(); ++e) {
      // Twenty stages, each within half an ulp of a sum that is at most 1024 norms below the end.
      ASSERT_NEAR(back[e], values[e], std::ldexp(1.0, static_cast<int>(seed)) * 0x1p-18);
      ASSERT_FALSE(bits_of(back[e]) == 0x80000000u);
    }
  }
}

TEST(Hadamard, LastValuesOfACall_CutIntoPowersOfTwo) {
  std::vector<uint32_t> lengths;
  for_each_rotation(code_count(true, 3 * 1024 + 800), [&](size_t first, uint32_t length) {
    EXPECT_EQ(first % length, 0u);
    lengths.push_back(length);
  });
  EXPECT_EQ(lengths, (std::vector<uint32_t>{1024, 1024, 1024, 512, 256, 128}));
  EXPECT_EQ(code_count(true, 1), 128u);
  EXPECT_EQ(code_count(true, 1024), 1024u);
  EXPECT_EQ(code_count(true, 1025), 1152u);
}

TEST(Hadamard, AnyLength_ValuesNoLargerThanOfTheLongest) {
  for (uint32_t length = kRotationValuesMin; length <= kRotationValues; length *= 2) {
    const float shrink = rotation_shrink(length);
    EXPECT_LE(shrink * shrink * static_cast<float>(length), 0x1p-10f) << length;
    EXPECT_GE(shrink * shrink * static_cast<float>(length), 0x1p-11f) << length;
  }
}

TEST(Hadamard, Back_EveryNumberOfLastValues_Inverse) {
  for (size_t count = 1; count <= kRotationValues; count += count % 128 < 2 ? 1 : 63) {
    const Floats values = edge_biased_values(count, count, 1);
    const Floats back = rotated_back(kSite, kFirst, rotated_forth(kSite, kFirst, values));
    for (size_t e = 0; e < count; ++e) ASSERT_NEAR(back[e], values[e], 0x1p-18) << count;
    for (size_t e = count; e < back.size(); ++e) ASSERT_NEAR(back[e], 0, 0x1p-18) << count;
  }
}

/** Values of the largest size and of either sign: those of `row` add up in one sum. */
Floats largest_floats(uint32_t row) {
  Floats values(kRotationValues);
  for (uint32_t e = 0; e < kRotationValues; ++e) {
    const uint32_t negative = std::popcount(row & e) % 2 == 0 ? 0 : 0x80000000u;
    values[e] = float_of(0x7f7fffffu | (sign_of(kSite, kFirst + e) ^ negative));
  }
  return values;
}

TEST(Hadamard, LargestFloats_NoOverflow) {
  for (uint32_t row = 0; row < kRotationValues; row += 31) {
    const Floats rotated = rotated_forth(kSite, kFirst, largest_floats(row));
    for (uint32_t k = 0; k < kRotationValues; ++k) {
      ASSERT_EQ(rotated[k], k == row ? FLT_MAX : 0) << row << " " << k;
    }
  }
}

TEST_P(Rotation, RotatedStages_StagesOnRotatedValues) {
  for (const size_t count : {size_t{1}, size_t{128}, size_t{300}, size_t{897}, size_t{1000},
                             size_t{1024}, size_t{4096 + 3}, size_t{4096 + 640}}) {
    const Floats values = edge_biased_values(count, count, 2);
    const Floats rotated = rotated_forth(kSite, kFirst, values);
    const uint32_t bits = norm_bits(values, true);
    EXPECT_EQ(bits, norm_bits(rotated, false));
    for (Coding coding : code_formats(2, 0)) {
      const Words expected = quantize({stages(), coding, kSite, kFirst}, rotated, float_of(bits));
      const Floats decoded = dequantize({stages(), coding, kSite, kFirst}, expected, rotated.size(),
                                        float_of(bits), GQSGD_SUM);
      Floats back = rotated_back(kSite, kFirst, decoded);
      back.resize(count);
      coding.rotated = true;
      Words words(expected.size());
      const float norm = float_of(bits);
      stages().quantize({coding,
                         kSite,
                         {kFirst, count},
                         values.data(),
                         GQSGD_FLOAT32,
                         {&norm, nullptr},
                         words.data(),
                         nullptr});
      EXPECT_EQ(words, expected) << describe(coding);
      const Floats whole =
          dequantize({stages(), coding, kSite, kFirst}, words, count, norm, GQSGD_SUM);
      for (size_t e = 0; e < count; ++e) ASSERT_EQ(bits_of(whole[e]), bits_of(back[e])) << e;
    }
  }
}

TEST_P(Rotation, NonfiniteValue_PoisonsItsRotationOnly) {
  for (const float bad : {static_cast<float>(NAN), INFINITY, -INFINITY}) {
    Floats values(3 * 1024, 1.0f);
    values[1024 + 500] = bad;
    std::vector<uint16_t> codes(3 * 32);
    stages().norm({NormOrder::inf,
                   32,
                   true,
                   kSite,
                   {kFirst, values.size()},
                   values.data(),
                   GQSGD_FLOAT32,
                   codes.data(),
                   nullptr});
    for (size_t k = 0; k < codes.size(); ++k) {
      ASSERT_EQ(codes[k] == 0x7fff, k / 32 == 1) << k << " " << bad;
    }
  }
}

TEST_P(Rotation, PoisonedBlocks_RotationNanOfOnePattern) {
  Format format;
  format.block = 128;
  format.rotate = Rotate::hadamard;
  const Coding coding = coding_of(format, 2, 0);
  std::vector<uint16_t> scales(24, 0x3f80);
  scales[8 + 3] = 0x7fff;
  const Words words(words_for(8, 3 * 1024), 0x80818283u);
  Floats values(3 * 1024);
  stages().dequantize({coding,
                       kSite,
                       {kFirst, values.size()},
                       words.data(),
                       {nullptr, scales.data()},
                       GQSGD_FLOAT32,
                       GQSGD_MEAN,
                       values.data(),
                       nullptr});
  for (size_t e = 0; e < values.size(); ++e) {
    if (e / 1024 == 1) {
      ASSERT_EQ(bits_of(values[e]), 0x7fc00000u) << e;
    } else {
      ASSERT_TRUE(std::isfinite(values[e])) << e;
    }
  }
}

}  // namespace
}  // namespace gq::test
