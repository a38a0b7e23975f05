// Adaptive widths: bits of the blocks of a group against the test vectors and against an obvious
// definition, and the groups of a call (docs/FORMAT.md, section 16).
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/codec/groups.h"
#include "kernels/codec/widths.h"
#include "tests/support/inputs.h"
#include "tests/support/vectors.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

using Codes = std::vector<uint16_t>;
using Widths = std::vector<uint8_t>;

constexpr int32_t kOffsets[] = {0, 421, 742, 1028, 1298, 1561};

bool counts(uint16_t norm) { return norm != 0 && norm <= 0x7f80; }

/** One bit at a time, to the block whose norm is the largest less the offset of its next bit, the
 *  first of equal ones. */
Widths obvious_widths(const Codes& norms, uint32_t planes) {
  Widths widths(norms.size());
  uint32_t left = planes;
  for (size_t b = 0; b < norms.size(); ++b) {
    if (!counts(norms[b])) continue;
    widths[b] = 2;
    left -= 2;
  }
  for (; left > 0; --left) {
    int32_t largest = INT32_MIN;
    size_t best = 0;
    for (size_t b = 0; b < norms.size(); ++b) {
      if (widths[b] == 0 || widths[b] == 8) continue;
      const int32_t gain = norms[b] - kOffsets[widths[b] - 2];
      if (gain > largest) {
        largest = gain;
        best = b;
      }
    }
    if (largest == INT32_MIN) break;
    ++widths[best];
  }
  return widths;
}

Widths widths_on(const Stages& stages, const Codes& norms, uint32_t planes) {
  Widths widths(norms.size() + 1, 0xA5);
  stages.widths({static_cast<uint32_t>(norms.size()), planes, norms.data(), widths.data()});
  EXPECT_EQ(widths.back(), 0xA5) << "wrote beyond the last block";
  widths.pop_back();
  return widths;
}

/** Norms of a kind: of every size, close together with ties, equal, mostly zero, poisoned, all at
 *  distances of offsets, at both ends of the range. */
Codes norms_of_kind(uint32_t kind, size_t count, uint64_t seed) {
  Codes norms(count);
  for (size_t b = 0; b < count; ++b) {
    const uint64_t draw = mix(seed * 0x10001 + b);
    const uint16_t any = static_cast<uint16_t>(1 + draw % 0x7f80);
    const uint16_t close = static_cast<uint16_t>(0x3f00 + draw % 40);
    const uint16_t apart = static_cast<uint16_t>(0x4000 - kOffsets[draw % 6] + (draw >> 8) % 2);
    const uint16_t of_kind[] = {any,
                                close,
                                uint16_t{0x3f80},
                                draw % 4 == 0 ? close : uint16_t{0},
                                draw % 5 == 0 ? static_cast<uint16_t>(0x7f81 + draw % 0x7f) : any,
                                apart,
                                draw % 2 == 0 ? uint16_t{1} : uint16_t{0x7f80}};
    norms[b] = of_kind[kind];
  }
  return norms;
}
constexpr uint32_t kKinds = 7;

class WidthStages : public testing::TestWithParam<const Stages*> {};

std::string name_of(const testing::TestParamInfo<const Stages*>& info) { return info.param->name; }

INSTANTIATE_TEST_SUITE_P(Isa, WidthStages, testing::ValuesIn(stages_here()), name_of);

TEST_P(WidthStages, Vectors_WidthsOfTheReference) {
  for (const VectorRecord& r : read_vectors("widths.txt")) {
    const std::vector<uint64_t> patterns = r.patterns("norms");
    const std::vector<uint64_t> widths = r.integers("widths");
    EXPECT_EQ(widths_on(*GetParam(), Codes(patterns.begin(), patterns.end()),
                        static_cast<uint32_t>(r.integer("planes"))),
              Widths(widths.begin(), widths.end()))
        << r.name();
  }
}

/** Calls check(norms, planes) for groups of every kind, from the least budget to more than all. */
template <typename Check>
void for_each_group(Check check) {
  for (uint32_t kind = 0; kind < kKinds; ++kind) {
    for (const size_t count : {1u, 2u, 7u, 8u, 64u, 255u, 256u}) {
      for (uint64_t seed = 0; seed < 4; ++seed) {
        const Codes norms = norms_of_kind(kind, count, seed + 100 * count);
        const uint32_t blocks = static_cast<uint32_t>(count);
        for (const uint32_t planes : {2 * blocks, 2 * blocks + 1, 5 * blocks / 2, 3 * blocks,
                                      4 * blocks - 1, 6 * blocks + 1, 8 * blocks - 1, 8 * blocks,
                                      8 * blocks + 3}) {
          check(norms, planes, "kind " + std::to_string(kind) + ", " + std::to_string(count) +
                                   " blocks, seed " + std::to_string(seed) + ", planes " +
                                   std::to_string(planes));
        }
      }
    }
  }
}

TEST_P(WidthStages, NormsOfAllKinds_EqualTheDefinition) {
  for_each_group([&](const Codes& norms, uint32_t planes, const std::string& what) {
    ASSERT_EQ(widths_on(*GetParam(), norms, planes), obvious_widths(norms, planes)) << what;
  });
}

TEST_P(WidthStages, Budget_SpentExactly) {
  for_each_group([&](const Codes& norms, uint32_t planes, const std::string& what) {
    const Widths widths = widths_on(*GetParam(), norms, planes);
    uint32_t spent = 0, most = 0;
    for (size_t b = 0; b < norms.size(); ++b) {
      spent += widths[b];
      most += counts(norms[b]) ? 8 : 0;
      const bool allowed = counts(norms[b]) ? widths[b] >= 2 && widths[b] <= 8 : widths[b] == 0;
      ASSERT_TRUE(allowed) << what << ", block " << b << " has " << int{widths[b]};
    }
    ASSERT_EQ(spent, std::min(planes, most)) << what;
  });
}

uint32_t extra_of(uint16_t norm, int32_t threshold) {
  uint32_t extra = 0;
  for (const int32_t offset : kOffsets) extra += norm >= threshold + offset ? 1 : 0;
  return extra;
}

TEST(Widths, Codec_ExtraBitsAndTheNext) {
  for (int32_t threshold = kThresholdMin; threshold <= kNormCodeMax + 1; threshold += 7) {
    for (uint32_t code = 1; code <= 0x7f80; code += 97) {
      const uint16_t norm = static_cast<uint16_t>(code);
      const uint32_t here = extra_bits(norm, threshold);
      ASSERT_EQ(here, extra_of(norm, threshold)) << norm << " at " << threshold;
      const uint32_t below = extra_of(norm, threshold - 1);
      ASSERT_EQ(is_next(norm, threshold), below > here) << norm << " at " << threshold;
    }
  }
}

/** Blocks of a group, counted granule by granule. */
uint64_t blocks_of(const Groups& groups, uint64_t group) {
  uint64_t blocks = 0;
  for (uint32_t k = 0; k * kGranuleValues < groups.group_values; ++k) {
    const uint64_t first = groups.first_value(group) + k * groups.stride_values();
    if (first >= groups.value_count) break;
    blocks += adaptive_blocks(std::min<uint64_t>(kGranuleValues, groups.value_count - first));
  }
  return blocks;
}

void expect_groups_of(uint64_t value_count, uint32_t ranks) {
  const uint64_t granules = divided_up(value_count, kGranuleValues);
  const Groups groups = interleaved_groups(value_count, kMeanHalfBitsMin, ranks);
  const std::string what = std::to_string(value_count) + " values, ranks " + std::to_string(ranks);
  const uint64_t balanced = ranks * ((granules + 32 * ranks - 1) / (32 * ranks));
  ASSERT_EQ(groups.group_count, std::min(balanced, (granules + 7) / 8)) << what;
  ASSERT_EQ(groups.group_values % kGranuleValues, 0u) << what;
  ASSERT_GE(groups.group_values / kGranuleValues * groups.group_count, granules) << what;
  ASSERT_LT((groups.group_values / kGranuleValues - 1) * groups.group_count, granules) << what;
  uint64_t largest = 0, sum = 0;
  for (uint64_t g = 0; g < groups.group_count; ++g) {
    const uint64_t blocks = blocks_of(groups, g);
    largest = std::max(largest, blocks);
    sum += blocks;
  }
  ASSERT_EQ(sum, adaptive_blocks(value_count)) << what;
  ASSERT_LE(largest, kGroupBlocks) << what;
  ASSERT_GE(groups.group_planes, kWidthMin * largest) << what;
  ASSERT_LE(groups.group_planes * groups.group_count,
            kMeanHalfBitsMin * adaptive_blocks(value_count) / 2)
      << what;
}

// The last granule has one block, or all of them: between the two, planes grow with the blocks.
TEST(Groups, EveryCall_AtMost256Blocks_PlanesForAll) {
  for (uint64_t granules = 1; granules <= 5000; granules += granules < 600 ? 1 : 61) {
    for (uint32_t ranks = 1; ranks <= 33; ++ranks) {
      for (const uint64_t value_count :
           {(granules - 1) * kGranuleValues + 1, granules * kGranuleValues}) {
        ASSERT_NO_FATAL_FAILURE(expect_groups_of(value_count, ranks));
      }
    }
  }
}

TEST(Groups, Granules_EachInOneGroup) {
  for (uint64_t granules = 1; granules <= 700; ++granules) {
    for (const uint32_t ranks : {1u, 2u, 3u, 5u, 8u, 33u}) {
      const Groups groups =
          interleaved_groups(granules * kGranuleValues, kMeanHalfBitsMin, ranks);
      std::vector<int> seen(granules);
      for (uint64_t g = 0; g < groups.group_count; ++g) {
        for (uint64_t at = 0; at < groups.group_values; at += kGranuleValues) {
          const uint64_t value =
              groups.first_value(g) + at / kGranuleValues * groups.stride_values();
          if (value < groups.value_count) ++seen[value / kGranuleValues];
        }
      }
      ASSERT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<ptrdiff_t>(granules))
          << granules << " granules, ranks " << ranks;
    }
  }
}

TEST(Groups, Slices_ConsecutiveBlocks_PlanesOfTheirOwn) {
  const Groups groups = consecutive_groups(70001, 9);
  EXPECT_EQ(groups.group_count, 3u);
  EXPECT_EQ(groups.group_planes, 1152u);
  EXPECT_EQ(groups.first_value(2), 65536u);
  EXPECT_EQ(groups.stride_values(), kGranuleValues);
  const Packing packing{8, 9, groups.group_values, groups.group_planes};
  const uint64_t rest = (70001 - 65536 + 127) / 128;
  EXPECT_EQ(words_for(packing, 70001), (2 * 1152 + 9 * rest / 2) * 4);
}

TEST(Header, AdaptiveWidths_FieldsOfTheReference) {
  for (const VectorRecord& r : read_vectors("header_adaptive.txt")) {
    Format format;
    format.block = 128;
    format.rounding = Rounding::correlated;
    format.rescale = true;
    format.mean_half_bits = static_cast<uint8_t>(2 * std::stod(r.text("mean_bits")));
    format.bits = format.bits_down = 8;
    EXPECT_EQ(fields_word(format), r.words("words").at(6)) << r.name();
  }
}

TEST(Header, RiceCodes_FieldsOfTheReference) {
  for (const VectorRecord& r : read_vectors("header_rice.txt")) {
    Format format;
    format.levels = Levels::rice;
    format.rounding = Rounding::correlated;
    format.mean_half_bits = static_cast<uint8_t>(2 * std::stod(r.text("mean_bits")));
    format.bits = format.bits_down = 8;
    EXPECT_EQ(fields_word(format), r.words("words").at(6)) << r.name();
  }
}

}  // namespace
}  // namespace gq::test
