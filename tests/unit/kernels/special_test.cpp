// Values and norms that are no ordinary numbers: zero, NaN, infinity, the largest and the smallest;
// and the choice of an instruction set by name.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cfloat>
#include <cmath>

#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

class Special : public testing::TestWithParam<const Stages*> {
 protected:
  const Stages& stages() const { return *GetParam(); }
};

std::string name_of(const testing::TestParamInfo<const Stages*>& info) { return info.param->name; }

INSTANTIATE_TEST_SUITE_P(Isa, Special, testing::ValuesIn(stages_here()), name_of);

uint32_t zero_lane(const Coding& coding) {
  return coding.levels == Levels::linear ? coding.steps : 0;
}

TEST_P(Special, NormsWithoutCodes_AnyValues_ZeroCodes) {
  const Floats values = {1, -1, NAN, INFINITY, -INFINITY, 0, -0.0f, FLT_MAX, float_of(0xffc00001)};
  for (const Coding& coding : code_formats(2, 1)) {
    for (const float norm : {0.0f, static_cast<float>(NAN), INFINITY, float_of(0x7f800001)}) {
      const Words words = quantize({stages(), coding}, values, norm);
      for (size_t e = 0; e < values.size(); ++e) {
        EXPECT_EQ(lane_at(words, coding.bits, e), zero_lane(coding)) << describe(coding) << norm;
      }
    }
  }
}

TEST_P(Special, NonfiniteScales_NanOfEachType) {
  for (const Coding& coding : code_formats(2, 1)) {
    const Call call{stages(), coding};
    const Words words = quantize(call, Floats(1030, 1.0f), 1);
    for (const float scale : {static_cast<float>(NAN), INFINITY, -INFINITY, float_of(0xffffffff)}) {
      for (const float value : dequantize(call, words, 1030, scale, GQSGD_SUM)) {
        ASSERT_EQ(bits_of(value), 0x7fc00000u);
      }
      std::vector<uint16_t> narrow(1030);
      dequantize_elements(call, words, 1030, scale, GQSGD_SUM, GQSGD_FLOAT16, narrow.data());
      for (const uint16_t value : narrow) ASSERT_EQ(value, 0x7e00);
      dequantize_elements(call, words, 1030, scale, GQSGD_SUM, GQSGD_BFLOAT16, narrow.data());
      for (const uint16_t value : narrow) ASSERT_EQ(value, 0x7fc0);
      std::vector<uint64_t> wide(1030);
      dequantize_elements(call, words, 1030, scale, GQSGD_SUM, GQSGD_FLOAT64, wide.data());
      for (const uint64_t value : wide) ASSERT_EQ(value, 0x7ff8000000000000ull);
    }
    for (const float value : dequantize(call, words, 1030, 0.0f, GQSGD_SUM)) {
      ASSERT_EQ(bits_of(value), 0u);
    }
  }
}

TEST_P(Special, Norm_ComesBackWithItsSign) {
  for (const float norm : {1.0f, 0.1f, 0x1p127f, 0x1.234567p-100f, 0x1.fffffep+60f}) {
    for (const uint32_t reduction_depth : {0u, 1u}) {
      for (const Coding& coding : code_formats(2, reduction_depth)) {
        const Call call{stages(), coding};
        const Floats values = {norm, -norm, 0, -0.0f};
        Words words = quantize(call, values, norm);
        const bool exact = coding.combine == Combine::exact && !coding.wide;
        if (exact) words = reduce(call, words, quantize(call, Floats(4), norm), 4);
        const float expected =
            exact || (coding.combine == Combine::sum && !coding.wide) ? norm / 2 : norm;
        const Floats mean = dequantize(call, words, 4, norm, GQSGD_MEAN);
        EXPECT_NEAR(mean[0] / expected, 1, 0x1p-22) << describe(coding) << " norm " << norm;
        EXPECT_EQ(mean[1], -mean[0]) << describe(coding);
        EXPECT_EQ(bits_of(mean[2]), 0u) << describe(coding);
        EXPECT_EQ(bits_of(mean[3]), 0u) << describe(coding);
      }
    }
  }
}

TEST_P(Special, NoValues_NoBuffersNeeded) {
  for (const Coding& coding : code_formats(2, 1)) {
    EXPECT_FALSE(failed(stages().quantize({coding, {}, {}, nullptr, 0, {}, nullptr, nullptr})));
    EXPECT_FALSE(failed(stages().reduce({coding, {}, {}, 1, 1, nullptr, nullptr, nullptr})));
    EXPECT_FALSE(
        failed(stages().dequantize({coding, {}, {}, nullptr, {}, 0, 0, nullptr, nullptr})));
  }
  uint32_t largest = 1;
  EXPECT_FALSE(
      failed(stages().norm({NormOrder::inf, 0, false, {}, {}, nullptr, 0, &largest, nullptr})));
  EXPECT_EQ(largest, 0u);
}

TEST_P(Special, WideSumsOfMoreRanksThan16BitsHold_Exact) {
  constexpr size_t kRanks = 700, kValues = 300;
  const Coding coding = coding_for(Levels::linear, 8, Combine::exact, kRanks, 0);
  for (const uint32_t lane : {0u, 254u}) {  // every rank at the same end
    const Words operand(words_for(8, kValues), 0x01010101u * lane);
    const Words sum =
        reduce_many({stages(), coding}, std::vector<Words>(kRanks, operand), kValues, 1);
    for (size_t e = 0; e < kValues; ++e) ASSERT_EQ(lane_at(sum, 8, e), lane);
  }
}

TEST_P(Special, WithoutLevels_NanHasOnePattern) {
  const Call call{stages(), coding_for(Levels::none, 32, Combine::sum, 2, 1)};
  const Words a = {0x7f800000, 0x7f800001, 0x3f800000, 0xffc12345};
  const Words b = {0xff800000, 0x3f800000, 0xff800001, 0x7fc54321};
  const Words nans(4, 0x7fc00000u);
  EXPECT_EQ(reduce(call, a, b, 4), nans);
  EXPECT_EQ(reduce_many(call, {a, b}, 4, 0), nans);
  for (const float value : dequantize(call, b, 4, 0, GQSGD_MEAN)) {
    if (value != value) {
      EXPECT_EQ(bits_of(value), 0x7fc00000u);
    }
  }
}

TEST_P(Special, LargestMagnitude_FoundAnywhere_NanIsLarger) {
  for (const size_t count : {size_t{1}, size_t{31}, size_t{1024}, size_t{3001}}) {
    for (const size_t at : {size_t{0}, count / 2, count - 1}) {
      Floats values(count, 0.5f);
      for (const float extreme : {-2.0f, FLT_MAX, -INFINITY, float_of(0xffc00001)}) {
        values[at] = extreme;
        uint32_t largest = 0;
        stages().norm({NormOrder::inf,
                       0,
                       false,
                       {},
                       {0, count},
                       values.data(),
                       GQSGD_FLOAT32,
                       &largest,
                       nullptr});
        EXPECT_EQ(largest, bits_of(extreme) & 0x7fffffffu) << count << " at " << at;
      }
    }
  }
}

TEST(ChooseIsa, ForcedNames_TakenOrRefusedByName) {
  const char* refused = "";
  for (const Stages* stages : stages_here()) {
    ASSERT_EQ(setenv("GQSGD_FORCE_ISA", stages->name, 1), 0);
    EXPECT_EQ(cpu_stages(&refused), stages);
    EXPECT_EQ(refused, nullptr);
  }
  ASSERT_EQ(setenv("GQSGD_FORCE_ISA", "avx9000", 1), 0);
  EXPECT_EQ(cpu_stages(&refused), nullptr);
  EXPECT_STREQ(refused, "avx9000");
  ASSERT_EQ(setenv("GQSGD_FORCE_ISA", "", 1), 0);
  EXPECT_NE(cpu_stages(&refused), nullptr);
  ASSERT_EQ(unsetenv("GQSGD_FORCE_ISA"), 0);
  const Stages* best = cpu_stages(&refused);
  ASSERT_NE(best, nullptr);
  EXPECT_EQ(refused, nullptr);
  // The fastest of them; one that this list lacks has to be put into it.
  for (const char* name : {"avx512vbmi", "avx512", "avx2", "neon", "scalar"}) {
    if (const Stages* stages = cpu_stages_named(name)) {
      EXPECT_STREQ(best->name, stages->name);
      break;
    }
  }
  EXPECT_EQ(stages_here().back(), &scalar_stages());
}

}  // namespace
}  // namespace gq::test
