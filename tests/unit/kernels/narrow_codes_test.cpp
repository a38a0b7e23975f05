// Levels bf16 and fp16: every code decoded, roundings counted over all random words, sums that stay
// finite, and what becomes of numbers that a type does not have.
#include "kernels/codec/narrow_codes.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/outcome.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

constexpr Levels kNarrow[] = {Levels::bf16, Levels::fp16};

Coding narrow_coding(Levels levels, uint32_t ranks, Rounding rounding = Rounding::independent) {
  return coding_for(levels, 16, Combine::exact, ranks, 0, rounding);
}

/** A code's value by the fields of its type, exact in double; NaN has no fields. */
double value_by_fields(Levels levels, uint32_t code) {
  const int mantissa_bits = levels == Levels::bf16 ? 7 : 10;
  const int exponent_bits = 15 - mantissa_bits;
  const int field = static_cast<int>((code & 0x7fff) >> mantissa_bits);
  const double mantissa = code & ((1u << mantissa_bits) - 1);
  const double sign = code >> 15 ? -1 : 1;
  if (field == (1 << exponent_bits) - 1) return mantissa == 0 ? sign * INFINITY : NAN;
  const double hidden = field == 0 ? 0 : std::ldexp(1, mantissa_bits);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  return sign * std::ldexp(mantissa + hidden, (field == 0 ? 1 : field) - bias - mantissa_bits);
}

Words every_code() {
  Words words(0x8000);
  for (uint32_t w = 0; w < words.size(); ++w) words[w] = 2 * w | (2 * w + 1) << 16;
  return words;
}

class NarrowStages : public testing::TestWithParam<const Stages*> {};

std::string name_of(const testing::TestParamInfo<const Stages*>& info) { return info.param->name; }

INSTANTIATE_TEST_SUITE_P(Isa, NarrowStages, testing::ValuesIn(stages_here()), name_of);

TEST_P(NarrowStages, EveryCode_ItsNumber) {
  for (const Levels levels : kNarrow) {
    for (const uint32_t ranks : {1u, 3u, 8u}) {
      const Call call{*GetParam(), narrow_coding(levels, ranks)};
      const double shift = levels == Levels::fp16 ? std::exp2(std::ceil(std::log2(ranks))) : 1;
      const Floats sums = dequantize(call, every_code(), 0x10000, 0, GQSGD_SUM);
      const Floats means = dequantize(call, every_code(), 0x10000, 0, GQSGD_MEAN);
      for (uint32_t code = 0; code < 0x10000; ++code) {
        const double sum = value_by_fields(levels, code) * shift;
        if (std::isnan(sum)) {
          ASSERT_EQ(bits_of(sums[code]), 0x7fc00000u) << code;
          ASSERT_EQ(bits_of(means[code]), 0x7fc00000u) << code;
          continue;
        }
        ASSERT_EQ(bits_of(sums[code]), bits_of(static_cast<float>(sum))) << code;
        const float mean = static_cast<float>(sum) / static_cast<float>(ranks);
        ASSERT_EQ(bits_of(means[code]), bits_of(mean)) << code;
      }
    }
  }
}

// All 65536 numbers of a type come through quantize, a sum of one rank and dequantize unchanged.
TEST_P(NarrowStages, EveryNumberOfTheType_ComesBack) {
  for (const Levels levels : kNarrow) {
    for (const Rounding rounding : {Rounding::independent, Rounding::nearest}) {
      const Call call{*GetParam(), narrow_coding(levels, 1, rounding), kSite, 0};
      const Floats values = dequantize(call, every_code(), 0x10000, 0, GQSGD_SUM);
      const Words words = quantize(call, values, 0);
      const Words sums = reduce_many(call, {words}, values.size(), 0);
      for (uint32_t code = 0; code < 0x10000; ++code) {
        const uint32_t nan = levels == Levels::bf16 ? 0x7fc0 : 0x7e00;
        const double value = value_by_fields(levels, code);
        const uint32_t expected = std::isnan(value) ? nan : value == 0 ? 0 : code;
        ASSERT_EQ(lane_at(words, 16, code), expected);
        ASSERT_EQ(lane_at(sums, 16, code), expected);
      }
    }
  }
}

/** A value whose roundings depend on the leading 16 bits of R(e) alone. */
float value_on_grid(Levels levels, uint64_t number) {
  const uint32_t mixed = static_cast<uint32_t>(mix(number));
  if (levels == Levels::bf16) {
    const uint32_t pattern = mixed & 0xff7fffffu;  // exponents below that of infinity
    return float_of(pattern);
  }
  // Multiples of 2^-16 of the distance of neighbours: also of those of denormals.
  const int exponent = static_cast<int>(mixed % 29) - 14;
  const double whole = 1024 + (mixed >> 5) % 1024 + ((mixed >> 15) % 65536) / 65536.0;
  const double denormal = ((mixed >> 5) % 1023) + ((mixed >> 15) % 65536) / 65536.0;
  const double value =
      number % 4 == 0 ? std::ldexp(denormal, -24) : std::ldexp(whole, exponent - 10);
  return static_cast<float>(mixed >> 31 ? -value : value);
}

template <Levels kLevels>
void expect_unbiased(uint32_t value_count) {
  for (uint32_t number = 0; number < value_count; ++number) {
    const float value = value_on_grid(kLevels, number);
    const uint32_t low = narrow_encode<kLevels, false>(value, 0);
    const uint32_t high = narrow_encode<kLevels, false>(value, ~0u);
    if (std::fabs(narrow_decode<kLevels>(static_cast<uint16_t>(high))) == INFINITY) continue;
    uint64_t high_count = 0;
    for (uint32_t leading = 0; leading < 0x10000; ++leading) {
      const uint32_t code = narrow_encode<kLevels, false>(value, leading << 16);
      ASSERT_TRUE(code == low || code == high) << value;
      ASSERT_EQ(code, (narrow_encode<kLevels, false>(value, leading << 16 | 0xffff))) << value;
      high_count += code == high && high != low;
    }
    const double a = value_by_fields(kLevels, low), b = value_by_fields(kLevels, high);
    const double sum =
        a * static_cast<double>(0x10000 - high_count) + b * static_cast<double>(high_count);
    ASSERT_EQ(sum, 0x1p16 * static_cast<double>(value)) << value;
  }
}

TEST(NarrowCodes, AllRandomWords_MeanIsTheValue) {
  expect_unbiased<Levels::bf16>(300);
  expect_unbiased<Levels::fp16>(300);
}

TEST_P(NarrowStages, NumbersBeyondTheType_Infinite) {
  const struct {
    Levels levels;
    float largest, beyond, nearest_infinite;
  } cases[] = {{Levels::fp16, 65504, std::nextafter(65504.0f, INFINITY), 65520},
               {Levels::bf16, float_of(0x7f7f0000), float_of(0x7f7f0001), float_of(0x7f7f8000)}};
  for (const auto& one : cases) {
    const Floats values = {one.largest, -one.largest, one.beyond, -one.beyond, FLT_MAX, -INFINITY};
    const uint32_t infinity = one.levels == Levels::fp16 ? 0x7c00 : 0x7f80;
    const uint32_t expected[] = {infinity - 1, (infinity - 1) | 0x8000, infinity, infinity | 0x8000,
                                 infinity,     infinity | 0x8000};
    for (uint32_t step = 0; step < 100; ++step) {
      RandomSite site = kSite;
      site.step = step;
      const Words words = quantize({*GetParam(), narrow_coding(one.levels, 3), site, 0}, values, 0);
      for (size_t e = 0; e < values.size(); ++e) ASSERT_EQ(lane_at(words, 16, e), expected[e]);
    }
    const Coding nearest = narrow_coding(one.levels, 3, Rounding::nearest);
    const Floats around = {std::nextafter(one.nearest_infinite, 0.0f), one.nearest_infinite};
    const Words words = quantize({*GetParam(), nearest, kSite, 0}, around, 0);
    EXPECT_EQ(lane_at(words, 16, 0), infinity - 1);
    EXPECT_EQ(lane_at(words, 16, 1), infinity);
  }
}

// For bf16, whose range is that of float32, sums are infinite where those of levels none are.
TEST_P(NarrowStages, LargestFp16OfAllRanks_FiniteSumAndExactMean) {
  for (uint32_t ranks = 1; ranks <= 70; ++ranks) {
    const Call call{*GetParam(), narrow_coding(Levels::fp16, ranks), kSite, 0};
    const Words words = quantize(call, {65504, -65504, 1}, 0);
    const Words sums = reduce_many(call, std::vector<Words>(ranks, words), 3, 0);
    const Floats means = dequantize(call, sums, 3, 0, GQSGD_MEAN);
    ASSERT_TRUE(std::isfinite(means[0]) && std::isfinite(means[1])) << ranks;
    const float step = 0x1p-10f * 65504;
    ASSERT_NEAR(means[0], 65504, step) << ranks;
    ASSERT_NEAR(means[1], -65504, step) << ranks;
    const bool is_power = (ranks & (ranks - 1)) == 0;
    ASSERT_TRUE(!is_power || means == (Floats{65504, -65504, 1})) << ranks;
  }
}

/** The mean of one value that so many ranks have as a code of fp16, as a float32. */
float fp16_mean_of_equal(const Stages* stages, float value, uint32_t ranks) {
  const Call call{*stages, narrow_coding(Levels::fp16, ranks), kSite, 0};
  const Words sums =
      reduce_many(call, std::vector<Words>(ranks, quantize(call, {value}, 0)), 1, 0);
  return dequantize(call, sums, 1, 0, GQSGD_MEAN)[0];
}

// As section 7 of docs/FORMAT.md has it: a float32 sum of so many codes is no more than exact.
TEST_P(NarrowStages, LargestFp16OfMostRanks_FiniteUpTo8192) {
  EXPECT_EQ(fp16_mean_of_equal(GetParam(), 65504, 8192), 65504);
  EXPECT_TRUE(std::isfinite(fp16_mean_of_equal(GetParam(), 65504, 8191)));
  EXPECT_EQ(fp16_mean_of_equal(GetParam(), 65504, 16384), INFINITY);
}

// What gqsgd_variance_bound leaves out: theta of so many ranks is 2^-22.
TEST_P(NarrowStages, EqualFp16_Float32SumsExactFor4096RanksAndOffFor131072) {
  const float value = 1 + 0x1p-10f;
  EXPECT_EQ(fp16_mean_of_equal(GetParam(), value, 4096), value);
  const float error = fp16_mean_of_equal(GetParam(), value, 131072) - value;
  EXPECT_GT(error * error, 0x1.01p-22f);
}

TEST(NarrowCodes, Shift_LeastPowerThatHasTheRanks) {
  for (uint32_t ranks = 1; ranks <= kRanksMax; ranks += 1 + ranks / 50) {
    const uint64_t power = uint64_t{1} << sum_shift(Levels::fp16, ranks);
    EXPECT_TRUE(power >= ranks && power / 2 < ranks) << ranks;
    EXPECT_EQ(sum_shift(Levels::bf16, ranks), 0u);
  }
  EXPECT_EQ(sum_shift(Levels::fp16, kRanksMax), 20u);
}

TEST_P(NarrowStages, Ranks_RoundIndependently) {
  const Floats values(4096, 1 + 0x1p-12f);  // between two numbers of either type
  for (const Levels levels : kNarrow) {
    uint32_t both = 0, ups = 0;
    Words words[2];
    for (uint32_t rank = 0; rank < 2; ++rank) {
      RandomSite site = kSite;
      site.rank = rank;
      words[rank] = quantize({*GetParam(), narrow_coding(levels, 2), site, 0}, values, 0);
    }
    const uint32_t one = levels == Levels::bf16 ? 0x3f80 : 0x3c00;
    for (size_t e = 0; e < values.size(); ++e) {
      const uint32_t a = lane_at(words[0], 16, e), b = lane_at(words[1], 16, e);
      ups += a > one;
      both += a > one && b > one;
    }
    // 1 / 32 and 1 / 4 go up: within 6 standard deviations.
    const double p = levels == Levels::bf16 ? 1.0 / 32 : 1.0 / 4, n = 4096;
    EXPECT_NEAR(ups, n * p, 6 * std::sqrt(n * p * (1 - p)));
    EXPECT_NEAR(both, n * p * p, 6 * std::sqrt(n * p * p));
  }
}

TEST_P(NarrowStages, SumsOfMeans_ShiftedByTheirRanks) {
  const Call node{*GetParam(), narrow_coding(Levels::fp16, 3), kSite, 0};
  const Words words = quantize(node, {60000, 1}, 0);
  const Words of_node = reduce_many(node, {words, words, words}, 2, 0);
  const Call whole{*GetParam(), narrow_coding(Levels::fp16, 4), kSite, 0};
  const uint32_t weights[] = {3, 1};
  const uint32_t* operands[] = {of_node.data(), words.data()};
  Words sums(1);
  ReduceManyArgs args{};
  args.coding = whole.coding;
  args.random = kSite;
  args.range = {0, 2};
  args.words = operands;
  args.out_words = sums.data();
  args.weights = weights;
  args.weight_count = 2;
  GetParam()->reduce_many(args);
  const Floats means = dequantize(whole, sums, 2, 0, GQSGD_MEAN);
  EXPECT_NEAR(means[0], 60000, 2 * 0x1p-10f * 60000);
  EXPECT_EQ(means[1], 1);
}

}  // namespace
}  // namespace gq::test
