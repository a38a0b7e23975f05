// The extended formats against the test vectors of the independent reference, on every instruction
// set: norms per block, correlated thresholds, other encodings of sums, rotation.
#include <gtest/gtest.h>

#include "kernels/codec/block_norm.h"
#include "kernels/codec/strata.h"
#include "tests/unit/kernels/support/rotated.h"
#include "tests/unit/kernels/support/stage_calls.h"
#include "tests/unit/kernels/support/vector_site.h"

namespace gq::test {
namespace {

Rounding rounding_of(const VectorRecord& r) {
  const std::string& text = r.text("rounding");
  return text == "correlated" ? Rounding::correlated
         : text == "nearest"  ? Rounding::nearest
                              : Rounding::independent;
}

Coding coding_of_record(const VectorRecord& r) {
  Format format;
  format.levels = r.text("levels") == "linear" ? Levels::linear : Levels::exponential;
  format.bits = static_cast<uint8_t>(r.integer("bits"));
  format.bits_down = static_cast<uint8_t>(r.integer("bits_down"));
  const std::string& combine = r.text("combine");
  format.combine = combine == "average" ? Combine::average
                   : combine == "sum"   ? Combine::sum
                                        : Combine::exact;
  format.rounding = rounding_of(r);
  const bool subtractive = r.text("rounding_down") == "subtractive";
  format.rounding_down = subtractive ? RoundingDown::subtractive : RoundingDown::random;
  format.block = small(r, "block");
  format.rotate = r.text("rotate") == "hadamard" ? Rotate::hadamard : Rotate::none;
  format.rescale = r.integer("rescale") != 0;
  format.mantissa_bits = static_cast<uint8_t>(r.integer("mantissa_bits"));
  return coding_of(format, small(r, "rank_count"), small(r, "combines"));
}

using Codes = std::vector<uint16_t>;

Codes norm_codes(const VectorRecord& r, const std::string& key) {
  const std::vector<uint64_t> patterns = r.patterns(key);
  return Codes(patterns.begin(), patterns.end());
}

/** The numbers of a record under `one` or `blocks`, whichever it has. */
struct RecordNorms {
  RecordNorms(const VectorRecord& r, const std::string& one_key, const std::string& blocks_key)
      : has_one(r.integer("block") == 0) {
    if (has_one) one = r.number(one_key);
    if (!has_one) blocks = norm_codes(r, blocks_key);
  }
  NormView view() const {
    return has_one ? NormView{&one, nullptr} : NormView{nullptr, blocks.data()};
  }

  bool has_one;
  float one = 0;
  Codes blocks;
};

Range range_of(const VectorRecord& r) {
  return {r.integer("first_value"), static_cast<size_t>(r.integer("value_count"))};
}

Floats values_of(const VectorRecord& r) {
  if (!r.has("salt")) return r.floats("values");
  return generated_values(small(r, "salt"), 0, r.integer("value_count"));
}

class ExtendedVectors : public testing::TestWithParam<const Stages*> {};

std::string name_of(const testing::TestParamInfo<const Stages*>& info) { return info.param->name; }

INSTANTIATE_TEST_SUITE_P(Isa, ExtendedVectors, testing::ValuesIn(stages_here()), name_of);

TEST_P(ExtendedVectors, BlockNorms_NormsOfTheReference) {
  for (const VectorRecord& r : read_vectors("norm_blocks.txt")) {
    const Floats values = values_of(r);
    const bool rotated = r.text("rotate") == "hadamard";
    const uint32_t block = small(r, "block");
    Codes codes(norm_count(block, rotated, values.size()), 0xCACA);
    GetParam()->norm({NormOrder::inf,
                      block,
                      rotated,
                      site_of(r),
                      {r.integer("first_value"), values.size()},
                      values.data(),
                      GQSGD_FLOAT32,
                      codes.data(),
                      nullptr});
    EXPECT_EQ(codes, norm_codes(r, "codes")) << r.name();
  }
}

TEST_P(ExtendedVectors, Quantize_WordsOfTheReference) {
  for (const VectorRecord& r : read_vectors("quantize_blocks.txt")) {
    const Coding coding = coding_of_record(r);
    const RecordNorms norms(r, "norm", "norms");
    const Floats values = values_of(r);
    const Range range{r.integer("first_value"), values.size()};
    Words words(words_for(coding.bits, code_count(coding.rotated, values.size())), 0xCACACACA);
    GetParam()->quantize({coding, site_of(r), range, values.data(), GQSGD_FLOAT32, norms.view(),
                          words.data(), nullptr});
    EXPECT_EQ(words, r.words("words")) << r.name();
  }
}

TEST_P(ExtendedVectors, ReduceMany_WordsAndScalesOfTheReference) {
  for (const VectorRecord& r : read_vectors("wide_blocks.txt")) {
    const Coding coding = coding_of_record(r);
    const RecordNorms norms(r, "norm", "norms");
    std::vector<Words> operands;
    std::vector<const uint32_t*> pointers;
    for (uint32_t k = 0; k < coding.ranks; ++k) {
      operands.push_back(r.words("operand_" + std::to_string(k)));
    }
    for (const Words& operand : operands) pointers.push_back(operand.data());
    const Range range = range_of(r);
    Words words(words_for(coding.bits_down, code_count(coding.rotated, range.value_count)), 1);
    Codes scales = norms.blocks;
    RandomSite site = site_of(r);
    site.hop = 1;
    GetParam()->reduce_many({coding, site, range, pointers.data(), norms.view(), words.data(),
                             coding.rescale ? scales.data() : nullptr, nullptr});
    EXPECT_EQ(words, r.words("words")) << r.name();
    if (coding.block > 0) {
      EXPECT_EQ(scales, norm_codes(r, "scales")) << r.name();
    }
  }
}

TEST_P(ExtendedVectors, Dequantize_ValuesOfTheReference) {
  for (const VectorRecord& r : read_vectors("dequantize_blocks.txt")) {
    const RecordNorms scales(r, "scale", "scales");
    const Words words = r.words("words");
    const int32_t op = r.text("op") == "sum" ? GQSGD_SUM : GQSGD_MEAN;
    Words values(r.integer("value_count"), 0xCACACACA);
    GetParam()->dequantize({coding_of_record(r), site_of(r), range_of(r), words.data(),
                            scales.view(), GQSGD_FLOAT32, op, values.data(), nullptr});
    EXPECT_EQ(values, r.words("values")) << r.name();
  }
}

/** With the norm 127 a value is its own number of steps: a distance to the next code of as much as
 *  the threshold says is just covered, and a bit more is not. */
TEST_P(ExtendedVectors, Quantize_ThresholdsOfTheReference) {
  Format format;
  format.combine = Combine::average;
  format.rounding = Rounding::correlated;
  for (const VectorRecord& r : read_vectors("correlated.txt")) {
    if (!r.has("thresholds")) continue;
    const Call call{*GetParam(), coding_of(format, small(r, "rank_count"), 0), site_of(r),
                    r.integer("first_value")};
    const Words thresholds = r.words("thresholds");
    Floats reached, missed;
    for (const uint32_t threshold : thresholds) {
      const int32_t distance = (1 << kUniformBits) - static_cast<int32_t>(threshold);
      reached.push_back(static_cast<float>(distance) * 0x1p-23f);
      missed.push_back(static_cast<float>(distance - 1) * 0x1p-23f);
    }
    const Words up = quantize(call, reached, 127), down = quantize(call, missed, 127);
    for (size_t e = 0; e < thresholds.size(); ++e) {
      EXPECT_EQ(lane_at(up, 8, e), 128u) << r.name() << " element " << e;
      EXPECT_EQ(lane_at(down, 8, e), 127u) << r.name() << " element " << e;
    }
  }
}

TEST(StrataVectors, FieldsAndPrimes_ThoseOfTheReference) {
  for (const VectorRecord& r : read_vectors("correlated.txt")) {
    if (r.has("product")) {
      const Words a = r.words("a"), j = r.words("j"), product = r.words("product");
      for (size_t k = 0; k < a.size(); ++k) {
        const Strata strata = strata_of(j[k], 1u << r.integer("m"));
        ASSERT_EQ(field_product(strata, a[k]), product[k])
            << r.name() << " " << a[k] << "*" << j[k];
      }
    }
    if (r.has("stratum_counts")) {
      const std::vector<uint64_t> ranks = r.integers("rank_counts");
      const std::vector<uint64_t> counts = r.integers("stratum_counts");
      for (size_t k = 0; k < ranks.size(); ++k) {
        EXPECT_EQ(strata_of(0, static_cast<uint32_t>(ranks[k])).count, counts[k]) << ranks[k];
      }
    }
  }
}

TEST(NormCodeVectors, CodesAndNorms_ThoseOfTheReference) {
  for (const VectorRecord& r : read_vectors("norm_codes.txt")) {
    const Codes codes = norm_codes(r, "codes");
    for (size_t k = 0; k < codes.size(); ++k) {
      if (r.name() == "codes") {
        EXPECT_EQ(norm_code(r.words("patterns")[k] & kMagnitudeMask), codes[k]) << k;
      } else if (r.name() == "norms") {
        EXPECT_EQ(float_bits(norm_from_code(codes[k])), r.words("norms")[k]) << k;
      } else {
        Codes merged = norm_codes(r, "b");
        scalar_stages().merge_norms(
            {merged.size(), norm_codes(r, "a").data(), merged.data(), nullptr});
        EXPECT_EQ(merged, codes);
      }
    }
  }
}

uint64_t checksum(const Floats& values) {
  uint64_t sum = 0;
  for (size_t k = 0; k < values.size(); ++k) sum += (2 * k + 1) * uint64_t{bits_of(values[k])};
  return sum;
}

Words first_patterns(const Floats& values, size_t count) {
  Words patterns;
  for (size_t k = 0; k < count; ++k) patterns.push_back(bits_of(values[k]));
  return patterns;
}

Floats rotation_input(const VectorRecord& r) {
  if (r.has("salt")) return values_of(r);
  Floats values(r.integer("value_count"));
  const std::vector<uint64_t> elements = r.integers("elements");
  for (size_t k = 0; k < elements.size(); ++k) values[elements[k]] = r.floats("values")[k];
  return values;
}

TEST(RotationVectors, ValuesForthAndBack_ThoseOfTheReference) {
  for (const VectorRecord& r : read_vectors("rotation.txt")) {
    const uint64_t first_value = r.integer("first_value");
    if (r.has("sign_words")) {
      const Words words = r.words("sign_words");
      for (uint32_t e = 0; e < kRotationValues; ++e) {
        ASSERT_EQ(sign_of(site_of(r), first_value + e) >> 31, (words[e / 32] >> (e % 32)) & 1) << e;
      }
      continue;
    }
    const Floats rotated = rotated_forth(site_of(r), first_value, rotation_input(r));
    EXPECT_EQ(checksum(rotated), r.integer("rotated_checksum")) << r.name();
    EXPECT_EQ(first_patterns(rotated, r.words("rotated").size()), r.words("rotated")) << r.name();
    Floats back = rotated_back(site_of(r), first_value, rotated);
    back.resize(r.integer("value_count"));
    EXPECT_EQ(checksum(back), r.integer("back_checksum")) << r.name();
    EXPECT_EQ(first_patterns(back, r.words("back").size()), r.words("back")) << r.name();
  }
}

}  // namespace
}  // namespace gq::test
