// Norms per block: a stage on many blocks is the stage on each block by itself; poisoned and zero
// blocks stay among themselves.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "kernels/codec/block_norm.h"
#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

using Codes = std::vector<uint16_t>;

constexpr RandomSite kSite{99, 1, 2, 3, 0};

class Blocks : public testing::TestWithParam<const Stages*> {
 protected:
  const Stages& stages() const { return *GetParam(); }

  Codes norms_of(const Floats& values, uint32_t block) const {
    Codes codes(norm_count(block, false, values.size()));
    stages().norm({NormOrder::inf,
                   block,
                   false,
                   kSite,
                   {0, values.size()},
                   values.data(),
                   GQSGD_FLOAT32,
                   codes.data(),
                   nullptr});
    return codes;
  }

  Words quantized(const Coding& coding, const Floats& values, const Codes& norms) const {
    Words words(words_for(coding.bits, values.size()));
    stages().quantize({coding,
                       kSite,
                       {0, values.size()},
                       values.data(),
                       GQSGD_FLOAT32,
                       {nullptr, norms.data()},
                       words.data(),
                       nullptr});
    return words;
  }

  Floats decoded(const Coding& coding, const Words& words, size_t count,
                 const Codes& scales) const {
    Floats values(count);
    stages().dequantize({coding,
                         kSite,
                         {0, count},
                         words.data(),
                         {nullptr, scales.data()},
                         GQSGD_FLOAT32,
                         GQSGD_MEAN,
                         values.data(),
                         nullptr});
    return values;
  }
};

std::string name_of(const testing::TestParamInfo<const Stages*>& info) { return info.param->name; }

INSTANTIATE_TEST_SUITE_P(Isa, Blocks, testing::ValuesIn(stages_here()), name_of);

std::vector<Coding> formats_with(uint32_t block) {
  std::vector<Coding> formats = code_formats(2, 1);
  for (const Coding& wide : code_formats(2, 0)) formats.push_back(wide);
  for (Coding& coding : formats) coding.block = block;
  return formats;
}

/** Blocks of very different sizes, some zero, some poisoned. */
Floats uneven_values(size_t value_count, uint32_t block) {
  Floats values = edge_biased_values(3, value_count, 1);
  for (size_t e = 0; e < value_count; ++e) {
    const size_t k = e / block;
    values[e] = k % 7 == 3 ? 0 : std::ldexp(values[e], static_cast<int>(k * 29 % 200) - 150);
    if (k % 11 == 5 && e % block == 17) values[e] = k % 2 == 0 ? NAN : -INFINITY;
    if (k % 13 == 6 && e % block == 3) values[e] = -FLT_MAX;
  }
  return values;
}

Floats part_of(const Floats& values, size_t first, size_t count) {
  const auto begin = values.begin() + static_cast<ptrdiff_t>(first);
  return Floats(begin, begin + static_cast<ptrdiff_t>(count));
}

TEST_P(Blocks, Norm_CodeOfTheLargestMagnitude) {
  for (const uint32_t block : {32u, 64u, 128u, 512u, 2048u}) {
    for (const size_t count : {size_t{1}, size_t{block}, size_t{3} * block + 5, size_t{5000}}) {
      const Floats values = uneven_values(count, block);
      const Codes codes = norms_of(values, block);
      for (size_t k = 0; k < codes.size(); ++k) {
        uint32_t largest = 0;
        for (size_t e = k * block; e < std::min(count, (k + 1) * block); ++e) {
          largest = std::max(largest, bits_of(values[e]) & 0x7fffffffu);
        }
        ASSERT_EQ(codes[k], norm_code(largest)) << "block " << block << " number " << k;
      }
    }
  }
}

TEST_P(Blocks, QuantizeAndDequantize_EachBlockByItself) {
  for (const uint32_t block : {32u, 128u, 512u}) {
    const size_t count = 4 * 2048 + 77;
    const Floats values = uneven_values(count, block);
    const Codes norms = norms_of(values, block);
    for (const Coding& coding : formats_with(block)) {
      const Words words = quantized(coding, values, norms);
      const Floats whole = decoded(coding, words, count, norms);
      Coding single = coding;
      single.block = 0;
      for (size_t first = 0; first < count; first += block) {
        const Call call{stages(), single, kSite, first};
        const float norm = norm_from_code(norms[first / block]);
        const Floats part = part_of(values, first, std::min<size_t>(block, count - first));
        const Words expected = quantize(call, part, norm);
        for (size_t w = 0; w < expected.size(); ++w) {
          ASSERT_EQ(words[words_for(coding.bits, first) + w], expected[w]) << describe(coding);
        }
        const Floats back = dequantize(call, expected, part.size(), norm, GQSGD_MEAN);
        for (size_t e = 0; e < part.size(); ++e) {
          ASSERT_EQ(bits_of(whole[first + e]), bits_of(back[e])) << describe(coding) << first + e;
        }
      }
    }
  }
}

TEST_P(Blocks, Poison_StaysInItsBlock) {
  constexpr uint32_t kBlock = 64;
  Floats values(10 * kBlock, 1.0f);
  values[3 * kBlock + 63] = NAN;
  values[5 * kBlock] = INFINITY;
  const Codes norms = norms_of(values, kBlock);
  for (const Coding& coding : formats_with(kBlock)) {
    const Words words = quantized(coding, values, norms);
    const Floats back = decoded(coding, words, values.size(), norms);
    for (size_t e = 0; e < values.size(); ++e) {
      const bool poisoned = e / kBlock == 3 || e / kBlock == 5;
      if (poisoned) {
        const uint32_t zero = coding.levels == Levels::linear ? coding.steps : 0;
        ASSERT_EQ(lane_at(words, coding.bits, e), zero) << describe(coding);
        ASSERT_EQ(bits_of(back[e]), 0x7fc00000u) << describe(coding);
      } else {
        ASSERT_TRUE(std::isfinite(back[e])) << describe(coding);
      }
    }
  }
}

TEST_P(Blocks, MergedNorms_TheLargerCodes) {
  const Codes a = {0, 1, 0x3f80, kNormCodeMax, kNormCodeNan, 5}, b = {1, 0, 0x3f81, 3, 7, 5};
  Codes merged = b;
  stages().merge_norms({merged.size(), a.data(), merged.data(), nullptr});
  EXPECT_EQ(merged, (Codes{1, 1, 0x3f81, kNormCodeMax, kNormCodeNan, 5}));
}

TEST(BlockNorm, Codes_RoundUpByLessThanOnePartIn128_Finite) {
  for (uint32_t upper = 0; upper < 0x7f80; ++upper) {
    for (const uint32_t lower : {0u, 1u, 0x8000u, 0xffffu}) {
      const float magnitude = float_of(upper << 16 | lower);
      const float norm = norm_from_code(norm_code(upper << 16 | lower));
      ASSERT_TRUE(std::isfinite(norm));
      ASSERT_GE(norm, magnitude);
      ASSERT_LT(static_cast<double>(norm) - magnitude,
                std::max(0x1p-133, static_cast<double>(magnitude) / 128));
    }
  }
  for (uint32_t code = 0; code <= kNormCodeMax; ++code) {
    const float norm = norm_from_code(static_cast<uint16_t>(code));
    ASSERT_EQ(norm_code(bits_of(norm)), code) << "a norm is its own code";
  }
}

}  // namespace
}  // namespace gq::test
