// The strata of correlated rounding by enumeration: each rank's threshold is uniform by itself,
// each pair of ranks has every pair of different strata equally often, and every quotient is exact.
#include "kernels/codec/strata.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "kernels/rounding_strata.h"
#include "tests/support/inputs.h"

namespace gq::test {
namespace {

/** Of the map that words mean. */
uint32_t stratum_under(const Strata& strata, uint32_t bits_a, uint32_t bits_b) {
  return stratum_of(strata, stratum_offset(strata, bits_a), bits_b);
}

/** The strata of all ranks of a group under one map. */
std::vector<uint32_t> strata_under(uint32_t ranks, uint32_t bits_a, uint32_t bits_b) {
  std::vector<uint32_t> strata;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    strata.push_back(stratum_under(strata_of(rank, ranks), bits_a, bits_b));
  }
  return strata;
}

/** The first word whose product with `count` reaches `number` in its high half. */
uint32_t first_word(uint32_t number, uint32_t count) {
  return static_cast<uint32_t>(((uint64_t{number} << 32) + count - 1) / count);
}

/** How often ranks i and j have strata k and l over all maps: indexed k * Q + l. */
std::vector<uint32_t> pair_counts(uint32_t ranks, uint32_t i, uint32_t j) {
  const uint32_t count = strata_of(0, ranks).count;
  std::vector<uint32_t> pairs(count * count, 0);
  const Strata one = strata_of(i, ranks), other = strata_of(j, ranks);
  for (uint32_t a = 0; a + 1 < count; ++a) {
    for (uint32_t b = 0; b < count; ++b) {
      const uint32_t bits_a = first_word(a, count - 1), bits_b = first_word(b, count);
      ++pairs[stratum_under(one, bits_a, bits_b) * count + stratum_under(other, bits_a, bits_b)];
    }
  }
  return pairs;
}

TEST(Strata, EveryPairOfRanks_EveryPairOfDifferentStrataOnce) {
  for (uint32_t ranks = 2; ranks <= 17; ++ranks) {
    const uint32_t count = strata_of(0, ranks).count;
    for (uint32_t i = 0; i < ranks; ++i) {
      for (uint32_t j = 0; j < ranks; ++j) {
        if (i == j) continue;
        const std::vector<uint32_t> pairs = pair_counts(ranks, i, j);
        for (uint32_t k = 0; k < count * count; ++k) {
          ASSERT_EQ(pairs[k], k / count == k % count ? 0u : 1u)
              << ranks << " ranks " << i << " " << j;
        }
      }
    }
  }
}

/** The same for a few pairs of larger groups, the largest of each kind among them. */
TEST(Strata, LargeGroups_LawOfPairs) {
  for (const uint32_t ranks : {32u, 64u, 100u, 128u, 256u, 512u, 1022u, 1023u, 1024u}) {
    const uint32_t count = strata_of(0, ranks).count;
    for (const uint32_t j : {1u, ranks / 2 + 1, ranks - 1}) {
      const std::vector<uint32_t> pairs = pair_counts(ranks, 0, j);
      uint32_t wrong = 0;
      for (uint32_t k = 0; k < count * count; ++k) {
        wrong += pairs[k] != (k / count == k % count ? 0u : 1u);
      }
      EXPECT_EQ(wrong, 0u) << ranks << " ranks, 0 and " << j;
    }
  }
}

/** Words that give a and b are as many for each value of them, but for one. */
TEST(Strata, Maps_UniformToOneWord) {
  for (uint32_t count = 2; count <= 1031; ++count) {
    uint64_t fewest = ~uint64_t{0}, most = 0;
    for (uint32_t b = 0; b < count; ++b) {
      const uint64_t first = first_word(b, count);
      const uint64_t next = b + 1 < count ? first_word(b + 1, count) : uint64_t{1} << 32;
      ASSERT_EQ(mulhi(static_cast<uint32_t>(first), count), b);
      ASSERT_EQ(mulhi(static_cast<uint32_t>(next - 1), count), b);
      fewest = std::min(fewest, next - first);
      most = std::max(most, next - first);
    }
    ASSERT_LE(most - fewest, 1u) << count;
  }
}

/** Each of the 2^23 thresholds comes from exactly Q pairs of a stratum and an own uniform. */
TEST(Strata, Thresholds_ExactlyUniform) {
  for (const uint32_t ranks : {3u, 4u, 7u, 17u}) {
    const Strata strata = strata_of(0, ranks);
    std::vector<uint8_t> preimages(1u << kUniformBits, 0);
    for (uint32_t stratum = 0; stratum < strata.count; ++stratum) {
      for (uint32_t uniform = 0; uniform <= kUniformMask; ++uniform) {
        const uint32_t threshold = stratified_uniform(strata, stratum, uniform);
        ASSERT_LE(threshold, kUniformMask);
        ++preimages[threshold];
      }
    }
    const auto wrong = std::count_if(preimages.begin(), preimages.end(),
                                     [&](uint8_t n) { return n != strata.count; });
    EXPECT_EQ(wrong, 0) << ranks << " ranks";
  }
}

/** How often a value of t / (8 Q) steps is rounded up under each map, if own uniforms are the
 *  multiples of an eighth: a threshold is then (8 k + i) / (8 Q), rounded down to 2^-23. */
std::vector<uint32_t> counts_of_ups(const Strata& strata, uint32_t t) {
  const uint32_t count = strata.count, eighth = 1u << 20;
  const uint32_t least = (8 * count - t) * eighth / count;
  std::vector<uint32_t> ups;
  for (uint32_t a = 0; a + 1 < count; ++a) {
    for (uint32_t b = 0; b < count; ++b) {
      const uint32_t k = stratum_under(strata, first_word(a, count - 1), first_word(b, count));
      uint32_t up = 0;
      for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t own = strata.reciprocal == 0 ? i * eighth / count : i * eighth;
        up += stratified_uniform(strata, k, own) >= least ? 1 : 0;
      }
      ups.push_back(up);
    }
  }
  return ups;
}

/** All maps, all pairs of values on a grid: the mean error of each is 0, and the covariance of two
 *  is never positive. */
TEST(Strata, RoundingErrors_NoMeanAndNeverPositivelyCorrelated) {
  for (const uint32_t ranks : {2u, 3u, 4u, 6u, 8u}) {
    const uint32_t count = strata_of(0, ranks).count, steps = 8 * count;
    const uint64_t maps = uint64_t{count} * (count - 1);
    for (uint32_t j = 1; j < ranks; ++j) {
      uint64_t pairs = 0, negative = 0;
      for (uint32_t t = 0; t <= steps; ++t) {
        const std::vector<uint32_t> one = counts_of_ups(strata_of(0, ranks), t);
        ASSERT_EQ(std::accumulate(one.begin(), one.end(), uint64_t{0}) * steps, 8 * maps * t);
        for (uint32_t u = 0; u <= steps; ++u) {
          const std::vector<uint32_t> other = counts_of_ups(strata_of(j, ranks), u);
          const auto both =
              std::inner_product(one.begin(), one.end(), other.begin(), uint64_t{0});
          // P(both up) <= P(one up) P(other up)
          ASSERT_LE(both * steps * steps, 64 * maps * t * u) << ranks << " " << j << " " << t;
          negative += both * steps * steps < 64 * maps * t * u ? 1 : 0;
          ++pairs;
        }
      }
      EXPECT_GT(4 * negative, pairs) << ranks << " " << j;
    }
  }
}

TEST(Strata, SumsOfNodes_StrataAndWordsOfTheirOwn) {
  RandomSite site{1, 2, 3, 70, 1};
  Coding coding{};
  coding.ranks = 80;
  coding.rounding = Rounding::correlated;
  EXPECT_EQ(strata_of_sum(coding, site).count, 1u);  // of all ranks
  EXPECT_EQ(strata_of_quantize(coding, site).rank, 70u);
  EXPECT_EQ(strata_of_quantize(coding, site).hop, 0u);
  site.node = 1030;
  site.nodes = 1033;
  const Strata strata = strata_of_sum(coding, site);
  EXPECT_EQ(strata.group, 1u);
  EXPECT_EQ(strata.hop, 1u);
  EXPECT_EQ(strata.rank, 6u);
  EXPECT_EQ(strata.count, 11u);  // nine nodes are left
  coding.rounding_down = RoundingDown::subtractive;
  EXPECT_EQ(strata_of_sum(coding, site).count, 1u);
  coding.rounding_down = RoundingDown::random;
  for (const Rounding rounding : {Rounding::independent, Rounding::nearest}) {
    coding.rounding = rounding;
    EXPECT_EQ(strata_of_sum(coding, site).count, 1u);
  }
}

TEST(Strata, QuotientsByEveryPrime_Exact) {
  std::set<uint32_t> seen;
  for (uint32_t ranks = 3; ranks <= kStrataRanks; ++ranks) {
    const Strata strata = strata_of(0, ranks);
    if (strata.field_bits > 0 || !seen.insert(strata.count).second) continue;
    uint32_t wrong = 0, quotient = 0;
    for (uint32_t first = 0; first < strata.count << 12; first += strata.count, ++quotient) {
      wrong += strata_quotient(strata, first) != quotient;
      wrong += strata_quotient(strata, first + strata.count - 1) != quotient;
    }
    EXPECT_EQ(wrong, 0u) << strata.count;
    for (uint64_t k = 0; k < 2000; ++k) {
      const uint32_t stratum = static_cast<uint32_t>(mix(k) % strata.count);
      const uint32_t uniform = static_cast<uint32_t>(mix(k + 7)) & kUniformMask;
      const uint64_t dividend = (uint64_t{stratum} << kUniformBits) + uniform;
      ASSERT_EQ(stratified_uniform(strata, stratum, uniform), dividend / strata.count);
    }
  }
  EXPECT_EQ(*seen.rbegin(), 1031u);
}

/** Whatever the step between words, one word runs through all 2^32 as the first does. And of two
 *  groups an odd number apart all pairs of words come up: shown for words of 8 bits. */
TEST(Strata, FactorWords_UniformEachAndInPairs) {
  for (const uint64_t group : {0u, 1u, 16u, 77u, 0xffffffffu}) {
    const uint32_t here = factor_bits({5, 0x12345679}, group);
    EXPECT_EQ(factor_bits({6, 0x12345679}, group), here + 1);
    EXPECT_EQ(factor_bits({5, 0x12345679}, group + (uint64_t{1} << 32)), here);
  }
  for (const uint32_t apart : {1u, 3u, 15u}) {
    std::vector<uint32_t> pairs(1u << 16, 0);
    for (uint32_t first = 0; first < 256; ++first) {
      for (uint32_t step = 0; step < 256; ++step) {
        const FactorWords words{first << 24, step << 24};
        ++pairs[factor_bits(words, 9) >> 24 << 8 | factor_bits(words, 9 + apart) >> 24];
      }
    }
    EXPECT_EQ(std::count(pairs.begin(), pairs.end(), 1u), 1 << 16) << apart;
  }
}

TEST(Strata, GroupsOf1024Ranks_DrawsOfTheirOwn) {
  EXPECT_EQ(strata_of(1023, 3000).group, 0u);
  EXPECT_EQ(strata_of(1024, 3000).group, 1u);
  EXPECT_EQ(strata_of(1024, 3000).rank, 0u);
  EXPECT_EQ(strata_of(1024, 3000).count, 1024u);
  EXPECT_EQ(strata_of(2999, 3000).count, 953u);  // 952 ranks are left
  EXPECT_EQ(strata_of(2048, 2049).count, 1u);
  EXPECT_EQ(correlated_uniform(strata_of(2048, 2049), 0xffffffffu, 1, 2), kUniformMask);
}

TEST(Strata, RanksOfAGroup_AllDifferent) {
  for (const uint32_t ranks : {2u, 3u, 16u, 100u, 1000u, 1023u, 1024u}) {
    for (uint64_t k = 0; k < 20; ++k) {
      const std::vector<uint32_t> strata = strata_under(ranks, static_cast<uint32_t>(mix(k) >> 32),
                                                        static_cast<uint32_t>(mix(k + 99) >> 32));
      EXPECT_EQ(std::set<uint32_t>(strata.begin(), strata.end()).size(), ranks);
    }
  }
}

}  // namespace
}  // namespace gq::test
