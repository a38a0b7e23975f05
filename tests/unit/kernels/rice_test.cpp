// Stages of Rice codes (docs/FORMAT.md, section 20): against the test vectors, all instruction sets
// with each other on values and words of any kind, and the law of the roundings.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/codec/groups.h"
#include "kernels/codec/rice.h"
#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/guarded.h"
#include "tests/unit/kernels/support/stage_calls.h"
#include "tests/unit/kernels/support/vector_patterns.h"
#include "tests/unit/kernels/support/vector_site.h"

namespace gq::test {
namespace {

/** A group, and where its values are in a call. */
struct Group {
  uint32_t value_count;
  uint32_t plane_count;
  Rounding rounding = Rounding::independent;
  uint32_t ranks = 1;
  bool is_sum = false;
  RandomSite site = {};
  uint64_t first_value = 0, stride_values = kGranuleValues;
};

/** As many planes as a call of this group alone has. */
Group group_of(uint32_t value_count, uint32_t mean_half_bits) {
  const uint64_t blocks = divided_up(value_count, kAdaptiveBlock);
  return {value_count, rice_planes(mean_half_bits, blocks, 1, value_count, false)};
}

Words encode(const Stages& stages, const Group& group, const Floats& values,
             uint32_t* poisoned = nullptr) {
  Coding coding{};
  coding.rounding = group.rounding;
  coding.ranks = group.ranks;
  Words words(group.plane_count * kPlaneWords, 0xA5A5A5A5u);
  stages.encode_rice({coding, group.site, group.is_sum, group.first_value, group.stride_values,
                      group.value_count, group.plane_count, values.data(), words.data(), poisoned});
  return words;
}

Floats decode(const Stages& stages, const Group& group, const Words& words) {
  Floats values(group.value_count, -1);
  stages.decode_rice({group.value_count, group.plane_count, words.data(), values.data(), false});
  return values;
}

/** Added to numbers that depend on the place. */
Floats decode_and_add(const Stages& stages, const Group& group, const Words& words) {
  Floats values(group.value_count);
  for (size_t e = 0; e < values.size(); ++e) values[e] = static_cast<float>(e) + 0.25f;
  stages.decode_rice({group.value_count, group.plane_count, words.data(), values.data(), true});
  return values;
}

float step_of(const Words& words) { return norm_from_code(static_cast<uint16_t>(words[0])); }

uint32_t parameter_of(const Words& words, uint32_t cell) {
  return rice_parameter_at(words[1 + cell / kRiceWordParameters], cell);
}

/** Patterns, one for all NaN. */
std::vector<uint32_t> patterns_of(const Floats& values) {
  std::vector<uint32_t> patterns;
  for (const float value : values) {
    patterns.push_back(std::isnan(value) ? kFloatNanBits : bits_of(value));
  }
  return patterns;
}

Floats normal_values(uint32_t value_count, uint64_t seed) {
  Floats values(value_count);
  for (size_t e = 0; e < values.size(); ++e) values[e] = static_cast<float>(normal_at(seed, e));
  return values;
}

constexpr const char* kKinds[] = {"normal", "uneven", "tails", "sparse", "integers", "special"};

/** Values of one of the kinds. */
Floats values_of_kind(const std::string& kind, uint32_t value_count, uint64_t seed) {
  Floats values = normal_values(value_count, seed);
  for (size_t e = 0; e < values.size(); ++e) {
    const uint64_t cell = mix(seed ^ mix(e / kRiceCell));
    if (kind == "uneven") values[e] = std::ldexp(values[e], static_cast<int>(cell % 16) - 8);
    if (kind == "tails") values[e] = values[e] * values[e] * values[e] * values[e] * values[e];
    if (kind == "sparse" && (cell % 3 != 0 || e % 5 != 0)) values[e] = 0;
    if (kind == "integers") values[e] = std::rint(4 * values[e]);
    if (kind != "special") continue;
    const float specials[] = {NAN, INFINITY, -0.0f, 0x1p-149f, 0x1p100f, -0x1p-126f, 0, 1};
    if (cell % 4 == 1 && e % 32 == cell / 4 % 32) values[e] = specials[cell / 128 % 4];
    if (cell % 4 == 2) values[e] = specials[2 + mix(seed + e) % 6];
  }
  return values;
}

class Rice : public testing::TestWithParam<const Stages*> {};

std::string name_of(const testing::TestParamInfo<const Stages*>& info) { return info.param->name; }

INSTANTIATE_TEST_SUITE_P(Isa, Rice, testing::ValuesIn(stages_here()), name_of);

Group group_of_record(const VectorRecord& r) {
  const std::string& rounding = r.text("rounding");
  Group group{small(r, "value_count"), small(r, "planes")};
  group.rounding = rounding == "correlated" ? Rounding::correlated
                   : rounding == "nearest"  ? Rounding::nearest
                                            : Rounding::independent;
  group.ranks = small(r, "rank_count");
  group.is_sum = r.integer("is_sum") != 0;
  group.site = site_of(r);
  group.site.rank = small(r, "rank");
  group.site.hop = group.is_sum ? 1 : 0;
  group.first_value = r.integer("first_value");
  group.stride_values = r.integer("stride_values");
  return group;
}

Floats values_of(const VectorRecord& r) {
  Floats values = generated_values(small(r, "salt"), small(r, "rank"), r.integer("value_count"));
  spread_blocks(r.integer("spread"), values);
  for (float& value : values) value *= r.floats("factor").at(0);
  if (!r.has("special_elements")) return values;
  const std::vector<uint64_t> elements = r.integers("special_elements");
  const std::vector<float> specials = r.floats("special_values");
  for (size_t k = 0; k < elements.size(); ++k) values.at(elements[k]) = specials.at(k);
  return values;
}

TEST_P(Rice, Vectors_StagesOfTheReference) {
  size_t count = 0;
  for (const VectorRecord& r : read_vectors("groups_rice.txt")) {
    const Group group = group_of_record(r);
    const Words words = encode(*GetParam(), group, values_of(r));
    expect_patterns(r, "words", words);
    expect_patterns(r, "result", patterns_of(decode(*GetParam(), group, words)));
    ++count;
  }
  EXPECT_GT(count, 70u);
}

/** Groups of all lengths, means, roundings and places. */
Group group_by(uint64_t number) {
  constexpr uint32_t kCounts[] = {1, 31, 32, 33, 100, 1023, 1024, 1025, 2047, 5000, 9000, 32768};
  const uint64_t mixed = mix(number);
  Group group = group_of(kCounts[mixed % 12], static_cast<uint32_t>(5 + mixed / 12 % 12));
  group.rounding = static_cast<Rounding>(mixed / 256 % 3);
  group.ranks = static_cast<uint32_t>(1 + mixed / 1024 % 9);
  group.is_sum = mixed / 16384 % 2 == 1;
  group.site.rank = static_cast<uint32_t>(mixed / 32768 % group.ranks);
  group.site.key = mixed;
  group.first_value = mixed / 65536 % 7 * kGranuleValues;
  group.stride_values = (1 + mixed / 1000000 % 5) * kGranuleValues;
  return group;
}

TEST_P(Rice, ValuesOfAllKinds_WordsAndValuesOfTheScalarStages) {
  for (uint64_t number = 0; number < 40; ++number) {
    for (const char* kind : kKinds) {
      const Group group = group_by(number);
      const Floats values = values_of_kind(kind, group.value_count, number);
      uint32_t poisoned = 0, expected_poisoned = 0;
      const Words words = encode(*GetParam(), group, values, &poisoned);
      const Words expected = encode(scalar_stages(), group, values, &expected_poisoned);
      ASSERT_EQ(words, expected) << kind << ", group " << number;
      EXPECT_EQ(poisoned, expected_poisoned) << kind << ", group " << number;
      EXPECT_EQ(patterns_of(decode(*GetParam(), group, words)),
                patterns_of(decode(scalar_stages(), group, words)))
          << kind << ", group " << number;
      EXPECT_EQ(patterns_of(decode_and_add(*GetParam(), group, words)),
                patterns_of(decode_and_add(scalar_stages(), group, words)))
          << kind << ", group " << number;
    }
  }
}

TEST_P(Rice, Values_EveryLength_WithinAStep) {
  for (const char* kind : {"normal", "uneven", "tails", "sparse", "integers"}) {
    for (uint64_t number = 0; number < 20; ++number) {
      const Group group = group_by(number);
      const Floats values = values_of_kind(kind, group.value_count, number);
      const Words words = encode(*GetParam(), group, values);
      const Floats decoded = decode(*GetParam(), group, words);
      const float step = step_of(words);
      for (size_t e = 0; e < values.size(); ++e) {
        ASSERT_LE(std::fabs(decoded[e] - values[e]), 1.0001f * step) << kind << ": " << e;
      }
    }
  }
}

TEST_P(Rice, FewestPlanes_ValuesOfAnyKind_NoCellPoisoned) {
  for (const uint32_t value_count : {1u, 2u, 31u, 32u, 33u, 65u, 300u, 1025u, 5000u, 32768u}) {
    const Group group{value_count, rice_planes_least(value_count), Rounding::correlated, 3};
    for (const char* kind : {"normal", "uneven", "tails", "sparse", "integers", "negative"}) {
      Floats values = values_of_kind(kind, value_count, 7);
      if (kind == std::string("negative")) std::fill(values.begin(), values.end(), -0x1.8p7f);
      uint32_t poisoned = 1;
      const Words words = encode(*GetParam(), group, values, &poisoned);
      EXPECT_EQ(poisoned, 0u) << kind << ", " << value_count << " values";
      EXPECT_LE(words[0], kRiceStepMax);
    }
  }
}

TEST_P(Rice, NonfiniteValues_TheirCellsAlonePoisoned) {
  const Group group = group_of(1000, 8);
  const Floats plain = normal_values(1000, 3);
  Floats values = plain;
  values[5] = NAN;
  values[70] = -INFINITY;
  values[999] = INFINITY;
  uint32_t poisoned = 0;
  const Words words = encode(*GetParam(), group, values, &poisoned);
  EXPECT_EQ(poisoned, 3u);
  const Floats decoded = decode(*GetParam(), group, words);
  for (uint32_t e = 0; e < 1000; ++e) {
    const bool is_poisoned = e < 32 || e / 32 == 2 || e / 32 == 31;
    EXPECT_EQ(parameter_of(words, e / 32) == kRicePoisoned, is_poisoned) << e;
    if (is_poisoned) {
      EXPECT_EQ(bits_of(decoded[e]), kFloatNanBits) << e;
    } else {
      EXPECT_LE(std::fabs(decoded[e] - plain[e]), 1.0001f * step_of(words)) << e;
    }
  }
}

TEST_P(Rice, Zeros_NoStepAndNoCodes) {
  const Group group = group_of(300, 8);
  Floats values(300, -0.0f);
  Words expected(group.plane_count * kPlaneWords);
  expected[1] = 0xffffffffu;
  expected[2] = 0xffu;
  EXPECT_EQ(encode(*GetParam(), group, values), expected);
  EXPECT_EQ(patterns_of(decode(*GetParam(), group, expected)), std::vector<uint32_t>(300, 0));
  const Floats added = decode_and_add(*GetParam(), group, expected);
  for (size_t e = 0; e < added.size(); ++e) EXPECT_EQ(added[e], static_cast<float>(e) + 0.25f);
}

TEST_P(Rice, Add_SumsWithWhatIsThere) {
  const Group group = group_of(1000, 8);
  const Words words = encode(*GetParam(), group, normal_values(1000, 9));
  const Floats decoded = decode(*GetParam(), group, words);
  const Floats added = decode_and_add(*GetParam(), group, words);
  for (size_t e = 0; e < added.size(); ++e) {
    EXPECT_EQ(added[e], static_cast<float>(e) + 0.25f + decoded[e]) << e;
  }
}

TEST_P(Rice, WordsThatEnd_NanFromThere) {
  const Group group = group_of(1000, 8);
  Words words = encode(*GetParam(), group, normal_values(1000, 10));
  const Floats before = decode(*GetParam(), group, words);
  const uint32_t heads = rice_head_words(rice_cells(1000));
  for (uint32_t k = 3; k < heads; ++k) words[k] = 0xddddddddu;  // cells from 16 on: 13 planes each
  const Floats decoded = decode(*GetParam(), group, words);
  for (uint32_t e = 0; e < 512; ++e) EXPECT_EQ(decoded[e], before[e]) << e;
  EXPECT_EQ(bits_of(decoded[999]), kFloatNanBits);
}

// With a step that depended on random numbers the roundings would have a bias.
TEST_P(Rice, RandomNumbers_TheStepDoesNotDependOnThem) {
  for (const char* kind : kKinds) {
    Group group = group_of(5000, 7);
    const Floats values = values_of_kind(kind, group.value_count, 11);
    const uint32_t step = encode(*GetParam(), group, values)[0];
    for (uint32_t draw = 1; draw < 20; ++draw) {
      group.site.step = draw;
      EXPECT_EQ(encode(*GetParam(), group, values)[0], step) << kind;
    }
  }
}

TEST_P(Rice, Codes_UnbiasedWithTheExactVariance) {
  for (const bool is_sum : {false, true}) {
    Group group = group_of(1024, 6);
    group.is_sum = is_sum;
    group.rounding = Rounding::correlated;
    group.ranks = 5;
    const Floats values = values_of_kind("uneven", group.value_count, 21);
    double sum = 0, squares = 0, exact = 0;
    for (uint32_t draw = 0; draw < 1024; ++draw) {
      group.site.step = draw;
      const Words words = encode(*GetParam(), group, values);
      const Floats decoded = decode(*GetParam(), group, words);
      const double step = static_cast<double>(step_of(words));
      for (size_t e = 0; e < values.size(); ++e) {
        const double place = static_cast<double>(values[e]) / step;
        const double error = static_cast<double>(decoded[e]) / step - place;
        const double fraction = place - std::floor(place);
        sum += error;
        squares += error * error;
        exact += fraction * (1 - fraction);
      }
    }
    EXPECT_LE(std::fabs(sum / std::sqrt(exact)), 5);
    EXPECT_NEAR(squares / exact, 1, 0.02);
  }
}

/** Expects each value that decode() finds, divided, in granules `stride_values` apart, and nothing
 *  written between them. */
void expect_results(const Stages& stages, const Group& group, const Words& words,
                    uint64_t stride_values, float divisor) {
  const Floats values = decode(scalar_stages(), group, words);
  const uint64_t granules = divided_up(group.value_count, kGranuleValues);
  Floats found(granules * stride_values, -7), expected = found;
  for (size_t e = 0; e < values.size(); ++e) {
    expected[e / kGranuleValues * stride_values + e % kGranuleValues] =
        std::isnan(values[e]) ? float_from_bits(kFloatNanBits) : values[e] / divisor;
  }
  DecodeRiceArgs args{group.value_count, group.plane_count, words.data(), found.data(), false};
  args.stride_values = stride_values;
  args.divisor = divisor;
  stages.decode_rice(args);
  for (size_t e = 0; e < found.size(); ++e) {
    ASSERT_EQ(bits_of(found[e]), bits_of(expected[e])) << e << ", by " << divisor;
  }
}

TEST_P(Rice, Results_GranulesApartAndDivided) {
  for (const uint32_t value_count : {1u, 300u, 1024u, 5000u, 32768u}) {
    const Group group = group_of(value_count, 8);
    for (const char* kind : kKinds) {
      for (const float factor : {1.0f, 0x1p-118f, 0x1p110f}) {
        Floats values = values_of_kind(kind, value_count, 9);
        for (float& value : values) value *= factor;
        Words words = encode(scalar_stages(), group, values);
        for (const float divisor : {1.0f, 2.0f, 3.0f, 64.0f, 1000.0f, 0x1p16f}) {
          expect_results(*GetParam(), group, words, kGranuleValues, divisor);
          expect_results(*GetParam(), group, words, 5 * kGranuleValues, divisor);
        }
        words[0] = kNormCodeNan;
        expect_results(*GetParam(), group, words, 2 * kGranuleValues, 3);
      }
    }
  }
}

/** Decodes as `stages` and the scalar ones do; AddressSanitizer sees reads beyond the words. */
void expect_same_reading(const Stages& stages, const Group& group, const Words& words) {
  for (const bool add : {false, true}) {
    Guarded<float> found(Floats(group.value_count, 0.5f), 1);
    Floats expected(group.value_count, 0.5f);
    stages.decode_rice({group.value_count, group.plane_count, words.data(), found.data(), add});
    scalar_stages().decode_rice(
        {group.value_count, group.plane_count, words.data(), expected.data(), add});
    ASSERT_EQ(patterns_of(found.values()), patterns_of(expected)) << group.value_count;
    ASSERT_TRUE(found.intact()) << group.value_count;
  }
}

TEST_P(Rice, AnyWords_ReadWithinThem_AsTheScalarStagesDo) {
  std::mt19937 engine(5);
  for (uint64_t number = 0; number < 60; ++number) {
    const Group group = group_by(number);
    Words words = encode(scalar_stages(), group, values_of_kind("uneven", group.value_count, 1));
    for (int change = 0; change < 6; ++change) {
      words[engine() % words.size()] ^= 1u << engine() % 32;
      expect_same_reading(*GetParam(), group, words);
    }
    for (uint32_t& word : words) word = static_cast<uint32_t>(engine() & engine());
    expect_same_reading(*GetParam(), group, words);
    const uint32_t heads = rice_head_words(rice_cells(group.value_count));
    for (uint32_t k = 1; k < heads; ++k) words[k] = 0;  // no planes: unary codes alone
    expect_same_reading(*GetParam(), group, words);
    std::fill(words.begin(), words.end(), 0xffffffffu);
    for (uint32_t k = 1; k < heads; ++k) words[k] = 0xddddddddu;  // more planes than there are
    expect_same_reading(*GetParam(), group, words);
    std::fill(words.begin(), words.end(), 0u);
    expect_same_reading(*GetParam(), group, words);
  }
}

}  // namespace
}  // namespace gq::test
