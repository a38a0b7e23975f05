// Sums of means that have scales of their own, on every instruction set: against the definition of
// docs/FORMAT.md, section 7, at the ends of the range, in place, and on average over random words.
#include <gtest/gtest.h>

#include <string.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "kernels/codec/block_norm.h"
#include "kernels/codec/linear.h"
#include "kernels/codec/random.h"
#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/guarded.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

constexpr RandomSite kSite{0x123456789ABCDEFull, 7, 11, 13, 2};

using Scales = std::vector<uint16_t>;

Coding means_coding(uint8_t bits, uint32_t block, uint32_t ranks) {
  Format format;
  format.bits = format.bits_down = bits;
  format.block = block;
  format.rescale = true;
  return coding_of(format, ranks, 0);
}

struct Sum {
  Words words;
  Scales scales;
  bool operator==(const Sum&) const = default;
};

/** Codes of the means of nodes, and their scales, for a range of a call. */
struct Operands {
  Coding coding;
  std::vector<uint32_t> weights;
  size_t value_count;
  uint64_t first_value = 0;
  std::vector<Sum> means = {};

  uint64_t codes() const { return code_count(coding.rotated, value_count); }
  size_t words() const { return words_for(coding.bits, codes()); }
  size_t blocks() const { return norm_count(coding.block, coding.rotated, value_count); }
  std::string text() const {
    return describe(coding) + " nodes " + std::to_string(weights.size()) + " values " +
           std::to_string(value_count);
  }

  /** kinds: which of the edges below a scale may be, a bit each. */
  void fill(uint64_t seed, uint32_t kinds) {
    const uint16_t edges[] = {0, kNormCodeNan, kNormCodeMax, 1, 0x7f7f, 0x0080, 0x7fc0};
    for (size_t k = 0; k < weights.size(); ++k) {
      Sum mean{edge_biased_codes(seed + k, codes(), coding), Scales(blocks())};
      for (size_t b = 0; b < blocks(); ++b) {
        const uint64_t draw = mix(seed * 0x30007 + k * 977 + b);
        const uint32_t kind = draw % 16;
        mean.scales[b] = kinds >> kind & 1 ? edges[kind]
                                           : static_cast<uint16_t>(0x4040 - (draw >> 32) % 0x200);
      }
      means.push_back(mean);
    }
  }
};

/** What the stage makes of buffers in which scales are behind words. in_place: the sum takes the
 *  place of the last operand. */
Sum sum_of(const Stages& stages, const Operands& operands, bool in_place, RandomSite site = kSite) {
  const size_t words = operands.words(), blocks = operands.blocks();
  std::vector<Guarded<uint32_t>> buffers;
  std::vector<const uint32_t*> pointers;
  for (const Sum& mean : operands.means) {
    Words both = mean.words;
    both.resize(words + (blocks + 1) / 2);
    memcpy(both.data() + words, mean.scales.data(), 2 * blocks);
    buffers.emplace_back(both, 1);
  }
  for (Guarded<uint32_t>& buffer : buffers) pointers.push_back(buffer.data());
  Guarded<uint32_t> out_words(words, 3);
  Guarded<uint16_t> out_scales(blocks, 3);
  ReduceManyArgs args{};
  args.coding = operands.coding;
  args.random = site;
  args.range = {operands.first_value, operands.value_count};
  args.words = pointers.data();
  args.weights = operands.weights.data();
  args.weight_count = static_cast<uint32_t>(operands.weights.size());
  args.operand_scales_bytes = 4 * words;
  uint32_t* const last = buffers.back().data();
  args.out_words = in_place ? last : out_words.data();
  args.out_scales = in_place ? reinterpret_cast<uint16_t*>(last + words) : out_scales.data();
  stages.reduce_many(args);
  EXPECT_TRUE(out_words.intact() && out_scales.intact()) << operands.text();
  for (const auto& buffer : buffers) EXPECT_TRUE(buffer.intact()) << operands.text();
  Sum made{Words(args.out_words, args.out_words + words), Scales(blocks)};
  memcpy(made.scales.data(), args.out_scales, 2 * blocks);
  return made;
}

/** S of one value. */
float exact_sum(const Operands& operands, size_t e) {
  const Coding& coding = operands.coding;
  float sum = 0;
  for (size_t k = 0; k < operands.weights.size(); ++k) {
    const double full = static_cast<double>(coding.ranks) * coding.steps;
    const float weight = static_cast<float>(static_cast<double>(operands.weights[k]) / full);
    const float factor = norm_from_code(operands.means[k].scales[e / coding.block]) * weight;
    const int lane = static_cast<int>(lane_at(operands.means[k].words, coding.bits, e));
    const float term = static_cast<float>(lane - static_cast<int>(coding.steps)) * factor;
    sum = k == 0 ? term : sum + term;
  }
  return sum;
}

uint32_t encoded(const Operands& operands, size_t e, float sum, float norm,
                 const RandomSite& site) {
  const Coding& coding = operands.coding;
  const bool subtractive = coding.rounding_down == RoundingDown::subtractive;
  const RandomStream stream =
      subtractive ? random_stream(site.key, site.step, site.index, Draw::subtractive, 0, 0)
                  : random_stream(site.key, site.step, site.index, Draw::encode_again, site.rank,
                                  site.hop);
  const uint64_t value = operands.first_value + e;
  const PhiloxBlock group = random_group(stream, value / kGroupValues);
  const uint32_t bits = value_bits(group.word[value / kWordValues % 4],
                                   static_cast<uint32_t>(value));
  const Scale scale = linear_scale(norm, coding.steps);
  return coding.rounding == Rounding::nearest
             ? linear_encode<true>(sum, scale, coding.steps, bits)
             : linear_encode<false>(sum, scale, coding.steps, bits);
}

/** The definition, value by value. */
Sum definition(const Operands& operands, const RandomSite& site = kSite) {
  const Coding& coding = operands.coding;
  Sum made{Words(operands.words()), Scales(operands.blocks())};
  for (size_t b = 0; b < operands.blocks(); ++b) {
    const size_t first = b * coding.block;
    const size_t end = std::min<size_t>(first + coding.block, operands.codes());
    bool poisoned = false;
    float peak = 0;
    for (size_t e = first; e < end; ++e) {
      const float sum = std::fabs(exact_sum(operands, e));
      poisoned |= std::isnan(sum);
      peak = std::max(peak, std::min(sum, FLT_MAX));
    }
    made.scales[b] = poisoned ? kNormCodeNan : norm_code(bits_of(peak));
    for (size_t e = first; e < end; ++e) {
      const float norm = norm_from_code(made.scales[b]);
      const uint32_t lane = encoded(operands, e, exact_sum(operands, e), norm, site);
      made.words[e * coding.bits / 32] |= lane << (e * coding.bits % 32);
    }
  }
  return made;
}

void expect_definition(const Operands& operands) {
  const Sum expected = definition(operands);
  for (const Stages* stages : stages_here()) {
    for (const bool in_place : {false, true}) {
      EXPECT_TRUE(sum_of(*stages, operands, in_place) == expected)
          << stages->name << ": " << operands.text() << (in_place ? " in place" : "");
    }
  }
}

const std::vector<std::vector<uint32_t>> kNodes = {{1, 2}, {8, 8}, {3, 1, 5}, {1, 1, 1, 1, 2}};

uint32_t sum_of(const std::vector<uint32_t>& weights) {
  uint32_t sum = 0;
  for (const uint32_t weight : weights) sum += weight;
  return sum;
}

TEST(Means, AnyNodesAndBlocks_EqualTheDefinition) {
  for (const std::vector<uint32_t>& weights : kNodes) {
    for (const uint8_t bits : {4, 8}) {
      for (const uint32_t block : {32u, 64u, 128u, 512u, 1024u, 4096u}) {
        for (const size_t value_count : {1, 33, 1000, 4097, 9000}) {
          Operands operands{means_coding(bits, block, sum_of(weights)), weights, value_count,
                            value_count % 2 * 8192};
          operands.fill(block + value_count, 0);
          expect_definition(operands);
        }
      }
    }
  }
}

TEST(Means, AllRoundingsAndRotations_EqualTheDefinition) {
  for (const uint8_t bits : {4, 8}) {
    for (const uint32_t block : {128u, 4096u}) {
      for (const int kind : {0, 1, 2, 3}) {
        Operands operands{means_coding(bits, block, 4), {3, 1}, 5001};
        if (kind == 1) operands.coding.rounding = Rounding::nearest;
        if (kind == 2) operands.coding.rounding_down = RoundingDown::subtractive;
        if (kind == 3) operands.coding.rotated = true;
        operands.fill(77, 0);
        expect_definition(operands);
      }
    }
  }
}

TEST(Means, ScalesOfAllKinds_EqualTheDefinition) {
  for (const uint8_t bits : {4, 8}) {
    for (const uint32_t block : {32u, 128u, 2048u}) {
      Operands operands{means_coding(bits, block, 9), {3, 1, 5}, 40000};
      operands.fill(5 + block, 0x7f);
      expect_definition(operands);
    }
  }
}

/** Lanes that are all at the top. */
Sum all_lanes(const Operands& operands, uint32_t lane, uint16_t scale) {
  Sum mean{Words(operands.words(), 0), Scales(operands.blocks(), scale)};
  for (size_t e = 0; e < operands.codes(); ++e) {
    mean.words[e * operands.coding.bits / 32] |= lane << (e * operands.coding.bits % 32);
  }
  return mean;
}

/** With 4 bits the means of 1 and 9 ranks add up to infinity, by roundings. */
void expect_finite_result(const Stages& stages) {
  std::vector<std::vector<uint32_t>> nodes = kNodes;
  nodes.push_back({1, 9});
  for (const uint8_t bits : {4, 8}) {
    for (const std::vector<uint32_t>& weights : nodes) {
      for (const bool negative : {false, true}) {
        Operands operands{means_coding(bits, 128, sum_of(weights)), weights, 640};
        const uint32_t lane = negative ? 0 : 2 * operands.coding.steps;
        for (size_t k = 0; k < weights.size(); ++k) {
          operands.means.push_back(all_lanes(operands, lane, kNormCodeMax));
        }
        const Sum made = sum_of(stages, operands, false);
        EXPECT_TRUE(made.scales == Scales(5, kNormCodeMax));
        for (size_t e = 0; e < 640; ++e) {
          // A sum that is one rounding too small may be one step lower.
          const int off = static_cast<int>(lane_at(made.words, bits, e)) - static_cast<int>(lane);
          ASSERT_TRUE(std::abs(off) <= 1) << operands.text();
        }
      }
    }
  }
}

TEST(Means, LargestScales_FiniteResult) {
  for (const Stages* stages : stages_here()) expect_finite_result(*stages);
}

void expect_poison(const Stages& stages) {
  for (const uint16_t nan : {uint16_t{kNormCodeNan}, uint16_t{0x7f81}}) {
    Operands operands{means_coding(8, 128, 4), {2, 1, 1}, 1000};
    operands.fill(3, 0);
    const Sum before = sum_of(stages, operands, false);
    operands.means[1].scales[2] = nan;
    const Sum made = sum_of(stages, operands, false);
    for (size_t b = 0; b < operands.blocks(); ++b) {
      EXPECT_EQ(made.scales[b], b == 2 ? kNormCodeNan : before.scales[b]);
    }
    for (size_t e = 0; e < 1000; ++e) {
      ASSERT_EQ(lane_at(made.words, 8, e), e / 128 == 2 ? 127 : lane_at(before.words, 8, e));
    }
  }
}

TEST(Means, OneScaleOfNan_ItsBlockIsPoisonedAndNoOther) {
  for (const Stages* stages : stages_here()) expect_poison(*stages);
}

void expect_zeros(const Stages& stages) {
  Operands operands{means_coding(8, 128, 4), {2, 2}, 256};
  operands.means = {all_lanes(operands, 127 + 50, 0x3f80), all_lanes(operands, 127 - 50, 0x3f80)};
  const Sum made = sum_of(stages, operands, true);
  EXPECT_TRUE(made.scales == Scales(2, 0));
  for (size_t e = 0; e < 256; ++e) ASSERT_EQ(lane_at(made.words, 8, e), 127u);
}

TEST(Means, OppositeMeans_ZeroScaleAndCodes) {
  for (const Stages* stages : stages_here()) expect_zeros(*stages);
}

/** Over random words the errors of all values, in steps of their block, have mean 0, upwards and
 *  away from zero, and the variance f (1 - f) that follows from the fraction f of a step at which
 *  each lies. Bounds of means are five standard deviations: a chance of 6e-7, if errors were
 *  normal. */
void expect_no_bias(const Stages& stages) {
  constexpr size_t kValues = 2048;
  constexpr uint32_t kSteps = 256;
  for (const uint8_t bits : {4, 8}) {
    Operands operands{means_coding(bits, 128, 9), {3, 1, 5}, kValues};
    operands.fill(40 + bits, 0);
    const uint32_t top = operands.coding.steps;
    double sum = 0, away = 0, squares = 0, exact = 0;
    for (uint32_t step = 0; step < kSteps; ++step) {
      RandomSite site = kSite;
      site.step = step;
      const Sum made = sum_of(stages, operands, false, site);
      for (size_t e = 0; e < kValues; ++e) {
        double mean = 0;
        for (size_t k = 0; k < 3; ++k) {
          const Sum& operand = operands.means[k];
          mean += operands.weights[k] / 9.0 * norm_from_code(operand.scales[e / 128]) *
                  (static_cast<double>(lane_at(operand.words, bits, e)) - top) / top;
        }
        const double at = mean * top / norm_from_code(made.scales[e / 128]);
        const double error = static_cast<double>(lane_at(made.words, bits, e)) - top - at;
        const double fraction = at - std::floor(at);
        sum += error;
        away += at < 0 ? -error : error;
        squares += error * error;
        exact += fraction * (1 - fraction);
      }
    }
    EXPECT_TRUE(std::fabs(sum) <= 5 * std::sqrt(exact)) << operands.text();
    EXPECT_TRUE(std::fabs(away) <= 5 * std::sqrt(exact)) << operands.text();
    EXPECT_TRUE(std::fabs(squares / exact - 1) <= 0.03) << operands.text();
  }
}

TEST(Means, ManySteps_UnbiasedWithTheExactVariance) {
  for (const Stages* stages : stages_here()) {
    if (strstr(stages->name, "cuda") == nullptr) expect_no_bias(*stages);  // bits are the same
  }
}

}  // namespace
}  // namespace gq::test
