// Every instruction set against the test vectors of the independent reference.
#include "tests/support/vectors.h"

#include <gtest/gtest.h>
#include <string.h>

#include "kernels/codec/global_norm.h"
#include "tests/unit/kernels/support/stage_calls.h"
#include "tests/unit/kernels/support/vector_site.h"

namespace gq::test {
namespace {

Levels levels_of(const VectorRecord& record) {
  const std::string& text = record.text("levels");
  return text == "linear"        ? Levels::linear
         : text == "exponential" ? Levels::exponential
         : text == "bf16"        ? Levels::bf16
         : text == "fp16"        ? Levels::fp16
                                 : Levels::none;
}

Combine combine_of(const VectorRecord& record) {
  const std::string text = record.has("combine") ? record.text("combine") : "wide";
  return text == "average" ? Combine::average : text == "sum" ? Combine::sum : Combine::exact;
}

Rounding rounding_of(const VectorRecord& record) {
  const bool nearest = record.has("rounding") && record.text("rounding") == "nearest";
  return nearest ? Rounding::nearest : Rounding::independent;
}

Coding coding_of_record(const VectorRecord& record) {
  const uint32_t reduction_depth =
      record.has("combines") ? static_cast<uint32_t>(record.integer("combines")) : 0;
  return coding_for(levels_of(record), static_cast<uint8_t>(record.integer("bits")),
                    combine_of(record), static_cast<uint32_t>(record.integer("rank_count")),
                    reduction_depth, rounding_of(record));
}

Words patterns_of(const Floats& values) {
  Words words(values.size());
  if (!values.empty()) memcpy(words.data(), values.data(), values.size() * sizeof(float));
  return words;
}

int32_t dtype_of(const VectorRecord& record) {
  const std::string& text = record.text("dtype");
  return text == "float16"    ? GQSGD_FLOAT16
         : text == "bfloat16" ? GQSGD_BFLOAT16
         : text == "float64"  ? GQSGD_FLOAT64
                              : GQSGD_FLOAT32;
}

/** Patterns as elements of a user's buffer, and back. */
std::vector<uint8_t> buffer_of(const std::vector<uint64_t>& patterns, int32_t dtype) {
  const uint32_t size_bytes = dtype_size_bytes(dtype);
  std::vector<uint8_t> buffer(patterns.size() * size_bytes + 1);
  for (size_t e = 0; e < patterns.size(); ++e) {
    memcpy(buffer.data() + e * size_bytes, &patterns[e], size_bytes);
  }
  return buffer;
}

class Vectors : public testing::TestWithParam<const Stages*> {
 protected:
  Call call(const VectorRecord& record) {
    return Call{*GetParam(), coding_of_record(record), site_of(record),
                record.has("first_value") ? record.integer("first_value") : 0};
  }
};

std::string name_of(const testing::TestParamInfo<const Stages*>& info) { return info.param->name; }

INSTANTIATE_TEST_SUITE_P(Isa, Vectors, testing::ValuesIn(stages_here()), name_of);

TEST_P(Vectors, Quantize_WordsOfTheReference) {
  for (const char* format : {"linear8", "linear4", "exponential8", "exponential4", "narrow"}) {
    for (const VectorRecord& r : read_vectors(std::string("quantize_") + format + ".txt")) {
      const float norm = r.has("norm") ? r.number("norm") : 0;
      EXPECT_EQ(quantize(call(r), r.floats("values"), norm), r.words("words"))
          << format << " " << r.name();
    }
  }
}

TEST_P(Vectors, Reduce_WordsOfTheReference) {
  for (const char* name : {"linear_exact", "linear8_average", "linear4_average", "exponential8_sum",
                           "exponential4_average", "none"}) {
    for (const VectorRecord& r : read_vectors(std::string("reduce_") + name + ".txt")) {
      EXPECT_EQ(reduce(call(r), r.words("a"), r.words("b"), r.integer("value_count"),
                       small(r, "weight_a"), small(r, "weight_b")),
                r.words("words"))
          << name << " " << r.name();
    }
  }
}

TEST_P(Vectors, ReduceMany_WordsOfTheReference) {
  for (const char* name :
       {"linear8", "linear4", "exponential8", "exponential4", "none", "narrow"}) {
    for (const VectorRecord& r : read_vectors(std::string("wide_") + name + ".txt")) {
      std::vector<Words> operands;
      for (uint32_t rank = 0; rank < r.integer("rank_count"); ++rank) {
        operands.push_back(r.words("operand_" + std::to_string(rank)));
      }
      const float norm = r.has("norm") ? r.number("norm") : 0;
      Call here = call(r);
      here.site.hop = 1;
      const Words words = reduce_many(here, operands, r.integer("value_count"), norm);
      EXPECT_EQ(words, r.words("words")) << name << " " << r.name();
    }
  }
}

TEST_P(Vectors, Dequantize_ValuesOfTheReference) {
  for (const char* name :
       {"linear8", "linear4", "exponential8", "exponential4", "none", "narrow"}) {
    for (const VectorRecord& r : read_vectors(std::string("dequantize_") + name + ".txt")) {
      const Call here{*GetParam(), coding_of_record(r)};
      const float scale = r.has("scale") ? r.number("scale") : 0;
      const int32_t op = r.text("op") == "sum" ? GQSGD_SUM : GQSGD_MEAN;
      EXPECT_EQ(
          patterns_of(dequantize(here, r.words("words"), r.integer("value_count"), scale, op)),
          r.words("values"))
          << name << " " << r.name();
    }
  }
}

TEST_P(Vectors, Elements_FloatsOfTheReference) {
  for (const VectorRecord& r : read_vectors("widen.txt")) {
    const Call here{*GetParam(), coding_for(Levels::none, 32, Combine::sum, 1, 0)};
    const std::vector<uint64_t> input = r.patterns("input");
    const std::vector<uint8_t> buffer = buffer_of(input, dtype_of(r));
    const Words words = quantize_elements(here, buffer.data(), input.size(), dtype_of(r), 0);
    EXPECT_EQ(words, r.words("values")) << r.name();
  }
}

TEST_P(Vectors, Floats_ElementsOfTheReference) {
  for (const VectorRecord& r : read_vectors("narrow.txt")) {
    const Coding none = coding_for(Levels::none, 32, Combine::sum, 1, 0, rounding_of(r));
    // Stages begin at multiples of 32; zeros fill the gap.
    const size_t before = r.integer("first_value") % kValueAlignment;
    const Call here{*GetParam(), none, site_of(r), r.integer("first_value") - before};
    Words words = patterns_of(r.floats("values"));
    words.insert(words.begin(), before, 0);
    std::vector<uint64_t> expected = r.patterns("output");
    expected.insert(expected.begin(), before, 0);
    std::vector<uint8_t> buffer(buffer_of(expected, dtype_of(r)).size());
    dequantize_elements(here, words, expected.size(), 0, GQSGD_SUM, dtype_of(r), buffer.data());
    EXPECT_EQ(buffer, buffer_of(expected, dtype_of(r))) << r.name();
  }
}

NormOrder order_of(const std::string& text) {
  return text == "inf" ? NormOrder::inf : text == "1" ? NormOrder::one : NormOrder::two;
}

TEST_P(Vectors, Norms_ThoseOfTheReference) {
  for (const VectorRecord& r : read_vectors("norm.txt")) {
    const NormOrder q = order_of(r.text("q")), p = order_of(r.text("p"));
    GlobalNorm merged(q, p);
    for (uint32_t rank = 0; rank < r.integer("rank_count"); ++rank) {
      const std::string key = "rank_" + std::to_string(rank);
      const Floats values =
          r.has(key) ? r.floats(key)
                     : generated_values(small(r, "salt"), rank, r.integer("value_count"));
      uint64_t out = 0;
      GetParam()->norm(
          {q, 0, false, {}, {0, values.size()}, values.data(), GQSGD_FLOAT32, &out, nullptr});
      if (r.has("rank_values")) {
        EXPECT_EQ(out, r.patterns("rank_values").at(rank)) << r.name() << " rank " << rank;
      }
      merged.merge(merged.to_wire(norm_words(out)));
    }
    EXPECT_EQ(bits_of(merged.result()), r.words("norm").at(0)) << r.name();
  }
}

}  // namespace
}  // namespace gq::test
