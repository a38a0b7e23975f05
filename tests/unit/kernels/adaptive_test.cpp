// Stages of adaptive widths (docs/FORMAT.md, section 16): against the test vectors, planes bit by
// bit, any order of granules, and the law of roundings at each width.
#include <gtest/gtest.h>

#include <string.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <random>

#include "kernels/codec/block_norm.h"
#include "kernels/codec/groups.h"
#include "kernels/codec/linear.h"
#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/guarded.h"
#include "tests/unit/kernels/support/stage_calls.h"
#include "tests/unit/kernels/support/vector_patterns.h"
#include "tests/unit/kernels/support/vector_site.h"

namespace gq::test {
namespace {

using Codes = std::vector<uint16_t>;

Format adaptive_format(uint8_t mean_half_bits) {
  Format format;
  format.levels = Levels::linear;
  format.bits = format.bits_down = 8;
  format.combine = Combine::exact;
  format.block = kAdaptiveBlock;
  format.mean_half_bits = mean_half_bits;
  return format;
}

/** One group of a call whose values are all in memory. */
struct Group {
  const Stages& stages;
  Coding coding;
  Range range;  ///< all of the group
  RandomSite site = {};

  size_t word_count() const { return range.group.plane_count * kPlaneWords; }
  size_t block_count() const { return range.group.block_count; }
  size_t granule_count() const { return divided_up(range.value_count, kGranuleValues); }

  /** Granules `first` .. `first + count - 1` of the group. */
  Range part(size_t first, size_t count) const {
    Range part = range;
    part.first_value += first * range.group.stride_values;
    part.value_count = std::min(count * kGranuleValues, range.value_count - first * kGranuleValues);
    part.group.first_block = static_cast<uint32_t>(first * kGranuleBlocks);
    return part;
  }
};

/** Calls of one stage each for a part of the group. `all`: the whole call's values. */
void take_norms(const Group& group, const Range& part, const Floats& all, Codes& norms) {
  NormArgs args{};
  args.q = NormOrder::inf;
  args.block = kAdaptiveBlock;
  args.range = part;
  args.values = all.data() + part.first_value;
  args.dtype = GQSGD_FLOAT32;
  args.out = norms.data();
  group.stages.norm(args);
}

void quantize(const Group& group, const Range& part, const Floats& all, const Codes& norms,
              Words& words) {
  group.stages.quantize({group.coding, group.site, part, all.data() + part.first_value,
                         GQSGD_FLOAT32, {nullptr, norms.data()}, words.data(), nullptr});
}

void add(const Group& group, const Range& part, const std::vector<Words>& operands,
         const Codes& norms, Words& sum, Codes& scales) {
  std::vector<const uint32_t*> words;
  for (const Words& operand : operands) words.push_back(operand.data());
  RandomSite site = group.site;
  site.hop = 1;
  group.stages.reduce_many({group.coding, site, part, words.data(), {nullptr, norms.data()},
                            sum.data(), scales.data(), nullptr});
}

void dequantize(const Group& group, const Range& part, const Words& words, const Codes& norms,
                const Codes& scales, int32_t op, Floats& all) {
  DequantizeArgs args{};
  args.coding = group.coding;
  args.random = group.site;
  args.range = part;
  args.words = words.data();
  args.scales = {nullptr, scales.data()};
  args.norms = {nullptr, norms.data()};
  args.dtype = GQSGD_FLOAT32;
  args.op = op;
  Guarded<float> aligned(all, 0);
  args.values = aligned.data() + part.first_value;
  args.nontemporal = true;
  group.stages.dequantize(args);
  args.values = all.data() + part.first_value;
  args.nontemporal = false;
  group.stages.dequantize(args);
  EXPECT_TRUE(aligned.intact());
  EXPECT_EQ(0, memcmp(aligned.data(), all.data(), all.size() * sizeof(float)));
}

Range range_of_group(const Groups& groups, uint64_t g) {
  Range range{groups.first_value(g), 0, {0, groups.group_planes, 0, groups.stride_values()}};
  for (uint64_t at = range.first_value; at < groups.value_count; at += groups.stride_values()) {
    range.value_count += std::min<uint64_t>(kGranuleValues, groups.value_count - at);
  }
  range.group.block_count = static_cast<uint32_t>(adaptive_blocks(range.value_count));
  return range;
}

class Adaptive : public testing::TestWithParam<const Stages*> {};

std::string name_of(const testing::TestParamInfo<const Stages*>& info) { return info.param->name; }

INSTANTIATE_TEST_SUITE_P(Isa, Adaptive, testing::ValuesIn(stages_here()), name_of);

Coding coding_of_record(const VectorRecord& r) {
  Format format = adaptive_format(static_cast<uint8_t>(2 * std::stod(r.text("mean_bits"))));
  const std::string& rounding = r.text("rounding");
  format.rounding = rounding == "correlated" ? Rounding::correlated
                    : rounding == "nearest"  ? Rounding::nearest
                                             : Rounding::independent;
  const bool subtractive = r.text("rounding_down") == "subtractive";
  format.rounding_down = subtractive ? RoundingDown::subtractive : RoundingDown::random;
  format.rescale = r.integer("rescale") != 0;
  return coding_of(format, small(r, "rank_count"), 0);
}

/** Values of one rank, as the head of the file defines them. */
Floats values_of(const VectorRecord& r, uint32_t rank) {
  Floats values = generated_values(small(r, "salt"), rank, r.integer("value_count"));
  spread_blocks(r.integer("spread"), values);
  return values;
}

/** Runs a record's stages in the order of a call. */
void expect_record(const Stages& stages, const VectorRecord& r) {
  const uint32_t ranks = small(r, "rank_count"), owner = small(r, "owner");
  Group group{stages, coding_of_record(r), {}, site_of(r)};
  const Groups groups =
      interleaved_groups(r.integer("value_count"), group.coding.mean_half_bits, ranks);
  group.range = range_of_group(groups, r.integer("group"));
  ASSERT_EQ(group.range.group.plane_count, r.integer("planes")) << r.name();
  ASSERT_EQ(group.block_count(), r.integer("blocks")) << r.name();
  Codes norms(group.block_count()), scales;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    Codes own(group.block_count());
    take_norms(group, group.range, values_of(r, rank), own);
    for (size_t b = 0; b < own.size(); ++b) norms[b] = std::max(norms[b], own[b]);
  }
  expect_patterns(r, "norms", norms);
  std::vector<Words> operands(ranks, Words(group.word_count(), 0xA5A5A5A5u));
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    group.site.rank = rank;
    quantize(group, group.range, values_of(r, rank), norms, operands[rank]);
  }
  expect_patterns(r, "words", operands[owner]);
  group.site.rank = owner;
  Words sum(group.word_count(), 0xA5A5A5A5u);
  scales = norms;  // what they are without rescale
  add(group, group.range, operands, norms, sum, scales);
  expect_patterns(r, "sum_words", sum);
  expect_patterns(r, "scales", scales);
  Floats all(r.integer("value_count")), own;
  const int32_t op = r.text("op") == "sum" ? GQSGD_SUM : GQSGD_MEAN;
  dequantize(group, group.range, sum, norms, scales, op, all);
  for (size_t k = 0; k < group.granule_count(); ++k) {
    const Range part = group.part(k, 1);
    own.insert(own.end(), all.begin() + static_cast<ptrdiff_t>(part.first_value),
               all.begin() + static_cast<ptrdiff_t>(part.first_value + part.value_count));
  }
  std::vector<uint32_t> bits;
  for (const float value : own) bits.push_back(bits_of(value));
  expect_patterns(r, "result", bits);
}

TEST_P(Adaptive, Vectors_StagesOfTheReference) {
  for (const VectorRecord& r : read_vectors("groups_adaptive.txt")) expect_record(*GetParam(), r);
}

/** A group of one block, of which the budget alone decides the width. */
Group one_block(const Stages& stages, uint32_t width, size_t value_count) {
  const Coding coding = coding_of(adaptive_format(16), 1, 0);
  return {stages, coding, {0, value_count, {1, width, 0, kGranuleValues}}};
}

/** A norm that is the number of steps: values that are whole numbers have these as codes. */
uint16_t norm_of_steps(uint32_t steps) {
  return static_cast<uint16_t>(bits_of(static_cast<float>(steps)) >> 16);
}

TEST_P(Adaptive, Planes_EveryWidth_BitsOfTheLanes) {
  for (uint32_t width = kWidthMin; width <= kWidthMax; ++width) {
    for (const size_t value_count : {size_t{128}, size_t{127}, size_t{33}, size_t{1}}) {
      const uint32_t steps = code_max(width);
      const Group group = one_block(*GetParam(), width, value_count);
      const Codes norms{norm_of_steps(steps)};
      Floats values(value_count), decoded(value_count);
      constexpr size_t kBehind = 40;  // words that no stage writes
      Words expected(group.word_count());
      for (size_t e = 0; e < value_count; ++e) {
        const uint32_t lane = static_cast<uint32_t>(mix(width * 1000 + e) % (2 * steps + 1));
        values[e] = static_cast<float>(lane) - static_cast<float>(steps);
        for (uint32_t p = 0; p < width; ++p) {
          expected[4 * p + e / 32] |= (lane >> p & 1) << e % 32;
        }
      }
      expected.resize(group.word_count() + kBehind, 0xA5A5A5A5u);
      Words words(group.word_count() + kBehind, 0xA5A5A5A5u);
      quantize(group, group.range, values, norms, words);
      EXPECT_EQ(words, expected) << width << " bits, " << value_count << " values";
      dequantize(group, group.range, words, norms, norms, GQSGD_MEAN, decoded);
      EXPECT_EQ(decoded, values) << width << " bits, " << value_count << " values";
    }
  }
}

/** Values whose blocks have norms of many sizes; every ninth block is zero. */
Floats uneven_values(size_t value_count, uint64_t seed) {
  Floats values(value_count);
  for (size_t e = 0; e < value_count; ++e) {
    const uint64_t block = mix(seed + e / kAdaptiveBlock);
    const int exponent = static_cast<int>(block % 14) - 7;
    const double normal = normal_at(seed, e);
    values[e] = static_cast<float>(std::ldexp(normal, block % 9 == 0 ? -200 : exponent));
  }
  return values;
}

/** What all stages make of a group, called for parts of it in an order. */
struct Made {
  Codes norms, scales;
  Words words, sum;
  Floats result;

  bool operator==(const Made&) const = default;
};

Made make_in_parts(const Group& group, const Floats& all, const std::vector<Range>& parts) {
  Made made{Codes(group.block_count()), Codes(group.block_count(), 0xA5A5),
            Words(group.word_count(), 0xA5A5A5A5u), Words(group.word_count(), 0x5A5A5A5Au),
            Floats(all.size(), -1.0f)};
  for (const Range& part : parts) take_norms(group, part, all, made.norms);
  for (const Range& part : parts) quantize(group, part, all, made.norms, made.words);
  const std::vector<Words> operands(group.coding.ranks, made.words);
  for (const Range& part : parts) add(group, part, operands, made.norms, made.sum, made.scales);
  for (const Range& part : parts) {
    dequantize(group, part, made.sum, made.norms, made.scales, GQSGD_SUM, made.result);
  }
  return made;
}

TEST_P(Adaptive, Granules_AnyOrder_SameBits) {
  std::mt19937 engine(3);
  for (const uint64_t value_count : {uint64_t{70001}, uint64_t{9 * 1024 + 1}, uint64_t{5000}}) {
    Format format = adaptive_format(7);
    format.rescale = true;
    format.rounding = Rounding::correlated;
    const Groups groups = interleaved_groups(value_count, 7, 3);
    const Floats all = uneven_values(value_count, value_count);
    for (uint64_t g = 0; g < groups.group_count; ++g) {
      const Group group{*GetParam(), coding_of(format, 3, 0), range_of_group(groups, g)};
      const Made whole = make_in_parts(group, all, {group.range});
      std::vector<Range> parts;
      for (size_t first = 0; first < group.granule_count();) {
        const size_t count = 1 + engine() % 3;
        parts.push_back(group.part(first, std::min(count, group.granule_count() - first)));
        first += count;
      }
      std::shuffle(parts.begin(), parts.end(), engine);
      EXPECT_TRUE(make_in_parts(group, all, parts) == whole)
          << value_count << " values, group " << g;
    }
  }
}

TEST_P(Adaptive, Sums_InPlaceOfAnOperand_SameBits) {
  for (const uint8_t mean_half_bits : {uint8_t{5}, uint8_t{8}, uint8_t{14}}) {
    const Groups groups = interleaved_groups(40000, mean_half_bits, 3);
    const Floats all = uneven_values(40000, mean_half_bits);
    Group group{*GetParam(), coding_of(adaptive_format(mean_half_bits), 3, 0),
                range_of_group(groups, 0)};
    Codes norms(group.block_count()), scales(group.block_count());
    take_norms(group, group.range, all, norms);
    std::vector<Words> operands(3, Words(group.word_count()));
    for (uint32_t rank = 0; rank < 3; ++rank) {
      group.site.rank = rank;
      quantize(group, group.range, all, norms, operands[rank]);
    }
    Words sum(group.word_count());
    add(group, group.range, operands, norms, sum, scales);
    const std::vector<Words> others = operands;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      operands = others;
      add(group, group.range, operands, norms, operands[rank], scales);
      EXPECT_EQ(operands[rank], sum) << int{mean_half_bits} << " half bits, operand " << rank;
    }
  }
}

// Sums of as many ranks as 16 bits hold, and of more, of codes that are all at one end.
TEST_P(Adaptive, ManyRanks_LargestSums_Exact) {
  for (const uint32_t ranks : {255u, 256u, 257u, 258u, 259u, 300u, 1000u}) {
    Group group = one_block(*GetParam(), 8, 128);
    group.coding = coding_of(adaptive_format(16), ranks, 0);
    const Codes norms{norm_of_steps(127)};
    for (const float value : {127.0f, -127.0f}) {
      Words words(group.word_count()), sum(group.word_count());
      Codes scales = norms;
      quantize(group, group.range, Floats(128, value), norms, words);
      add(group, group.range, std::vector<Words>(ranks, words), norms, sum, scales);
      Floats decoded(128);
      dequantize(group, group.range, sum, norms, scales, GQSGD_MEAN, decoded);
      EXPECT_EQ(decoded, Floats(128, value)) << ranks << " ranks";
    }
  }
}

/** Codes of the means of nodes, with scales of their own behind the words. */
struct Means {
  std::vector<uint32_t> weights;
  std::vector<Words> words = {};
  std::vector<Codes> scales = {};

  void add(Words codes, const Codes& own) {
    const size_t count = codes.size();
    codes.resize(count + (own.size() + 1) / 2);
    memcpy(codes.data() + count, own.data(), 2 * own.size());
    words.push_back(codes);
    scales.push_back(own);
  }
};

Coding coding_of_means(const Means& means) {
  Format format = adaptive_format(16);
  format.rescale = true;
  uint32_t ranks = 0;
  for (const uint32_t weight : means.weights) ranks += weight;
  return coding_of(format, ranks, 0);
}

/** Words and scales of their sum. in_place: where the last of them is. */
std::pair<Words, Codes> sum_of(const Group& group, Means means, const Codes& norms,
                               bool in_place) {
  const size_t words = group.word_count(), blocks = group.block_count();
  std::vector<const uint32_t*> operands;
  for (const Words& mean : means.words) operands.push_back(mean.data());
  Words made(words, 0xA5A5A5A5u);
  Codes scales(blocks, 0xA5A5);
  uint32_t* const last = means.words.back().data();
  ReduceManyArgs args{};
  args.coding = group.coding;
  args.random = group.site;
  args.range = group.range;
  args.words = operands.data();
  args.norms = {nullptr, norms.data()};
  args.out_words = in_place ? last : made.data();
  args.out_scales = in_place ? reinterpret_cast<uint16_t*>(last + words) : scales.data();
  args.weights = means.weights.data();
  args.weight_count = static_cast<uint32_t>(means.weights.size());
  args.operand_scales_bytes = words * sizeof(uint32_t);
  group.stages.reduce_many(args);
  std::copy_n(args.out_words, words, made.begin());
  memcpy(scales.data(), args.out_scales, 2 * blocks);
  return {made, scales};
}

uint32_t plane_lane(const Words& words, uint32_t width, size_t e) {
  uint32_t lane = 0;
  for (uint32_t p = 0; p < width; ++p) lane |= (words[4 * p + e / 32] >> e % 32 & 1) << p;
  return lane;
}

/** What docs/FORMAT.md, sections 7 and 16, make of one block. */
std::pair<Words, Codes> definition_of(const Group& group, const Means& means, uint32_t width) {
  const uint32_t steps = code_max(width);
  const size_t value_count = group.range.value_count;
  Floats sums(value_count);
  for (size_t e = 0; e < value_count; ++e) {
    for (size_t k = 0; k < means.weights.size(); ++k) {
      const double of_all = static_cast<double>(group.coding.ranks) * steps;
      const float weight = static_cast<float>(means.weights[k] / of_all);
      const float factor = norm_from_code(means.scales[k][0]) * weight;
      const int code = static_cast<int>(plane_lane(means.words[k], width, e)) -
                       static_cast<int>(steps);
      const float term = static_cast<float>(code) * factor;
      sums[e] = k == 0 ? term : sums[e] + term;
    }
  }
  bool poisoned = false;
  float peak = 0;
  for (const float sum : sums) {
    poisoned |= std::isnan(sum);
    peak = std::max(peak, std::min(std::fabs(sum), FLT_MAX));
  }
  const uint16_t code = poisoned ? kNormCodeNan : norm_code(bits_of(peak));
  const Scale scale = linear_scale(norm_from_code(code), steps);
  const RandomSite& site = group.site;
  const RandomStream stream = random_stream(site.key, site.step, site.index, Draw::encode_again,
                                            site.rank, site.hop);
  Words words(group.word_count());
  for (size_t e = 0; e < value_count; ++e) {
    const PhiloxBlock random = random_group(stream, e / kGroupValues);
    const uint32_t bits = value_bits(random.word[e / kWordValues % 4], static_cast<uint32_t>(e));
    const uint32_t lane = linear_encode<false>(sums[e], scale, steps, bits);
    for (uint32_t p = 0; p < width; ++p) words[4 * p + e / 32] |= (lane >> p & 1) << e % 32;
  }
  return {words, {code}};
}

TEST_P(Adaptive, Means_EveryWidthAndScale_EqualTheDefinition) {
  const uint16_t edges[] = {0, kNormCodeNan, kNormCodeMax, 1, 0x7f81, 0x0080};
  for (uint32_t width = kWidthMin; width <= kWidthMax; ++width) {
    for (uint32_t kind = 0; kind < 12; ++kind) {
      Means means{{3, 1, 5}};
      Group group = one_block(*GetParam(), width, kind % 2 == 0 ? 128 : 33);
      group.coding = coding_of_means(means);
      group.site = {17, 3, 5, 1, 2};
      for (uint32_t k = 0; k < 3; ++k) {
        Words words(group.word_count());
        for (size_t e = 0; e < group.range.value_count; ++e) {
          const uint32_t lane = mix(kind * 7777 + k * 999 + e) % (2 * code_max(width) + 1);
          for (uint32_t p = 0; p < width; ++p) words[4 * p + e / 32] |= (lane >> p & 1) << e % 32;
        }
        const bool is_edge = kind >= 6 && k == kind % 3;
        const uint16_t scale = is_edge ? edges[kind - 6] : static_cast<uint16_t>(0x4000 - 40 * k);
        means.add(words, {scale});
      }
      const auto expected = definition_of(group, means, width);
      for (const bool in_place : {false, true}) {
        EXPECT_TRUE(sum_of(group, means, {0x4100}, in_place) == expected)
            << width << " bits, kind " << kind << (in_place ? ", in place" : "");
      }
    }
  }
}

// Each block of a group as if it were alone; blocks without codes go by their norms.
TEST_P(Adaptive, Means_BlocksOfAGroup_TheirOwnScales) {
  constexpr size_t kBlocks = 19;
  Means means{{2, 2}};
  Group group{*GetParam(), coding_of_means(means), {0, kBlocks * 128, {kBlocks, kBlocks * 8, 0,
                                                                      kGranuleValues}}};
  group.site = {17, 3, 5, 1, 2};
  Codes norms(kBlocks, 0x4100);
  norms[2] = norms[17] = 0;
  norms[9] = kNormCodeNan;
  const size_t regular = kBlocks - 3;
  for (uint32_t k = 0; k < 2; ++k) {
    Words words(group.word_count());
    for (size_t w = 0; w < 32 * regular; ++w) words[w] = static_cast<uint32_t>(mix(k * 5000 + w));
    for (size_t w = 28; w < 32 * regular; w += 32) {  // lanes below 128: codes in range
      for (size_t e = 0; e < 4; ++e) words[w + e] = 0;
    }
    Codes scales(kBlocks);
    for (size_t b = 0; b < kBlocks; ++b) scales[b] = static_cast<uint16_t>(0x3e00 + 37 * b + k);
    means.add(words, scales);
  }
  const auto [words, scales] = sum_of(group, means, norms, false);
  EXPECT_TRUE(sum_of(group, means, norms, true) == std::pair(words, scales));
  for (size_t b = 0, place = 0; b < kBlocks; ++b) {
    if (norms[b] != 0x4100) {
      EXPECT_EQ(scales[b], norms[b]) << b;
      continue;
    }
    Means alone{{2, 2}};
    for (size_t k = 0; k < 2; ++k) {
      const auto first = means.words[k].begin() + static_cast<ptrdiff_t>(32 * place);
      alone.add(Words(first, first + 32), {means.scales[k][b]});
    }
    Group one = one_block(*GetParam(), 8, 128);
    one.coding = group.coding;
    one.site = group.site;
    one.range.first_value = 128 * b;
    const auto [own_words, own_scales] = sum_of(one, alone, {0x4100}, false);
    EXPECT_EQ(scales[b], own_scales[0]) << b;
    EXPECT_TRUE(std::equal(own_words.begin(), own_words.end(), words.begin() + 32 * place++)) << b;
  }
  EXPECT_EQ(Words(words.begin() + 32 * regular, words.end()), Words(32 * (kBlocks - regular)));
}

/** Errors of a rounding to whole numbers, in steps, against their exact variance f (1 - f). */
struct ErrorSum {
  double sum = 0, squares = 0, exact = 0;

  void add(double decoded, double value) {
    const double fraction = value - std::floor(value);
    sum += decoded - value;
    squares += (decoded - value) * (decoded - value);
    exact += fraction * (1 - fraction);
  }
};

TEST_P(Adaptive, Quantize_EveryWidth_UnbiasedWithTheExactVariance) {
  for (uint32_t width = kWidthMin; width <= kWidthMax; ++width) {
    const uint32_t steps = code_max(width);
    Group group = one_block(*GetParam(), width, 128);
    const Codes norms{norm_of_steps(steps)};
    Floats values(128), decoded(128);
    for (size_t e = 0; e < values.size(); ++e) {
      values[e] = static_cast<float>((2 * uniform_at(width, e) - 1) * steps);
    }
    ErrorSum errors;
    for (uint32_t step = 0; step < 4096; ++step) {
      group.site.step = step;
      Words words(group.word_count());
      quantize(group, group.range, values, norms, words);
      dequantize(group, group.range, words, norms, norms, GQSGD_MEAN, decoded);
      for (size_t e = 0; e < values.size(); ++e) errors.add(decoded[e], values[e]);
    }
    EXPECT_LE(std::fabs(errors.sum / std::sqrt(errors.exact)), 5) << width << " bits";
    EXPECT_NEAR(errors.squares / errors.exact, 1, 0.02) << width << " bits";
  }
}

// All 2^23 random numbers: the mean is the value, but for what is lost where a step is cut into
// 2^23 parts.
TEST(AdaptiveLaw, EveryWidth_AllRandomNumbers_MeanIsTheValue) {
  for (uint32_t width = kWidthMin; width <= kWidthMax; ++width) {
    const uint32_t steps = code_max(width);
    const Scale scale = linear_scale(static_cast<float>(steps), steps);
    for (const float value : {0.3f * static_cast<float>(steps), -0.71f}) {
      int64_t sum = 0;
      for (uint32_t r = 0; r < 1u << 23; ++r) {
        sum += int64_t{linear_encode<false>(value, scale, steps, r)} - int64_t{steps};
      }
      EXPECT_NEAR(static_cast<double>(sum), std::ldexp(double{value}, 23), 0.5)
          << width << " bits, " << value;
    }
  }
}

}  // namespace
}  // namespace gq::test
