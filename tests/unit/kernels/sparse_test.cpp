// Sparse entries: those that the reference writes, on every instruction set and however a call is
// cut into ranges; sums in rank order; and no entry, whatever it is, writes outside its range.
#include "kernels/codec/sparse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "tests/support/vectors.h"
#include "tests/unit/kernels/support/guarded.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

constexpr int32_t kDtypes[] = {GQSGD_FLOAT32, GQSGD_FLOAT16, GQSGD_BFLOAT16, GQSGD_FLOAT64};
constexpr RandomSite kSite{0x123456789ABCDEFull, 7, 11, 13, 0};

using EntriesOfRanks = std::vector<Words>;

void place_lane(Words* words, uint32_t bits, size_t e, uint32_t lane) {
  const uint32_t shift = bits * static_cast<uint32_t>(e % codes_per_word(bits));
  uint32_t& word = words->at(e / codes_per_word(bits));
  word = (word & ~(((1u << bits) - 1) << shift)) | lane << shift;
}

/** Words of zero codes, lanes beyond the last cleared. */
Words zero_words(const Coding& coding, size_t value_count) {
  Words words(words_for(coding.bits, value_count));
  for (size_t e = 0; e < value_count; ++e) place_lane(&words, coding.bits, e, zero_lane(coding));
  return words;
}

/** Codes of which `share` are not zero. */
Words some_codes(const Coding& coding, size_t value_count, double share, uint32_t seed) {
  const Words codes = edge_biased_codes(seed, value_count, coding);
  Words words = zero_words(coding, value_count);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform;
  for (size_t e = 0; e < value_count; ++e) {
    if (uniform(random) < share) place_lane(&words, coding.bits, e, lane_at(codes, coding.bits, e));
  }
  return words;
}

/** Counts and selects in ranges of `step` values; "" in *failure if both agree. */
Words entries_of(const Stages& stages, const Coding& coding, const Words& words, size_t value_count,
                 size_t step) {
  uint64_t counted = 0, count_skipped = 0, written = 0, skipped = 0;
  for (size_t first = 0; first < value_count; first += step) {
    const Range range{first, std::min(step, value_count - first)};
    const uint32_t* begin = words.data() + words_for(coding.bits, first);
    stages.count_entries({coding, range, begin, &count_skipped, &counted, nullptr});
  }
  Guarded<uint32_t> entries(counted, 1);
  for (size_t first = 0; first < value_count; first += step) {
    const Range range{first, std::min(step, value_count - first)};
    const uint32_t* begin = words.data() + words_for(coding.bits, first);
    stages.select({coding, range, begin, entries.data(), &skipped, &written, nullptr});
  }
  EXPECT_EQ(written, counted) << describe(coding);
  EXPECT_EQ(skipped, count_skipped) << describe(coding);
  EXPECT_TRUE(entries.intact()) << stages.name << " wrote more entries than it counted";
  return entries.values();
}

std::vector<RankEntries> views_of(const EntriesOfRanks& ranks) {
  std::vector<RankEntries> views;
  for (const Words& entries : ranks) views.push_back({entries.data(), entries.size(), 0, 0});
  return views;
}

/** What add_sparse writes, as bytes, in ranges of `step` values. */
std::vector<uint8_t> sums_of(const Stages& stages, const Coding& coding,
                             const EntriesOfRanks& ranks, size_t value_count, size_t step,
                             int32_t dtype, int32_t op, float scale) {
  std::vector<RankEntries> views = views_of(ranks);
  const size_t size = dtype_size_bytes(dtype);
  Guarded<uint8_t> values(value_count * size, 8);
  for (size_t first = 0; first < value_count; first += step) {
    const Range range{first, std::min(step, value_count - first)};
    stages.add_sparse({coding, kSite, range, views.data(), scale, dtype, op,
                       values.data() + first * size, nullptr});
  }
  EXPECT_TRUE(values.intact()) << stages.name << ", " << describe(coding);
  for (const RankEntries& view : views) {
    EXPECT_TRUE(view.next_entry == view.entry_count || scale == 0 || !is_finite(scale));
  }
  return values.values();
}

Coding coding_of_record(const VectorRecord& record) {
  const bool linear = record.text("levels") == "linear";
  return coding_for(linear ? Levels::linear : Levels::exponential,
                    static_cast<uint8_t>(record.integer("bits")), Combine::average, 3, 0);
}

TEST(SparseVectors, Entries_ThoseOfTheReference) {
  for (const VectorRecord& record : read_vectors("sparse.txt")) {
    const Coding coding = coding_of_record(record);
    const size_t value_count = record.integer("value_count");
    const uint64_t word = zero_lane(coding) * (coding.bits == 8 ? 0x01010101u : 0x11111111u);
    Words words(words_for(coding.bits, value_count), static_cast<uint32_t>(word));
    for (size_t e = value_count; e < words.size() * codes_per_word(coding.bits); ++e) {
      place_lane(&words, coding.bits, e, 0);
    }
    const auto elements = record.integers("elements"), lanes = record.integers("lanes");
    for (size_t k = 0; k < elements.size(); ++k) {
      place_lane(&words, coding.bits, elements[k], static_cast<uint32_t>(lanes.at(k)));
    }
    for (const Stages* stages : stages_here()) {
      EXPECT_EQ(entries_of(*stages, coding, words, value_count, 1 << 20), record.words("entries"))
          << record.name() << " on " << stages->name;
    }
  }
}

TEST(SparseStages, EveryTailAndCut_SameEntriesOnEveryInstructionSet) {
  for (const Coding& coding : code_formats(3, 0)) {
    for (const double share : {0.0, 0.01, 0.4, 1.0}) {
      for (const size_t count : {0u, 1u, 31u, 33u, 255u, 256u, 257u, 1000u, 4133u}) {
        const Words words = some_codes(coding, count, share, static_cast<uint32_t>(count) + 1);
        const Words whole = entries_of(scalar_stages(), coding, words, count, 1 << 20);
        for (const Stages* stages : stages_here()) {
          for (const size_t step : {32u, 288u, 1u << 20}) {
            ASSERT_EQ(entries_of(*stages, coding, words, count, step), whole)
                << stages->name << ", " << describe(coding) << ", " << count << " by " << step;
          }
        }
      }
    }
  }
}

/** The sum of the ranks' levels, in norms, for one value: rank order, as FORMAT says it. */
float plain_sum(const Coding& coding, const std::vector<Words>& codes, size_t e) {
  int32_t steps = 0;
  float levels = 0;
  for (const Words& words : codes) {
    const uint32_t lane = lane_at(words, coding.bits, e);
    steps += static_cast<int32_t>(lane) - static_cast<int32_t>(coding.steps);
    const uint32_t c = lane & code_max(coding.bits);
    const float level = std::ldexp(1.0f, static_cast<int>(c - code_max(coding.bits)));
    if (c != 0) levels += lane > code_max(coding.bits) ? -level : level;
  }
  return coding.levels == Levels::linear ? static_cast<float>(steps) : levels;
}

TEST(SparseStages, Sums_EqualThoseOfLanes) {
  constexpr size_t kCount = 777;
  for (const Coding& coding : code_formats(5, 0)) {
    std::vector<Words> codes;
    EntriesOfRanks ranks;
    for (uint32_t rank = 0; rank < 5; ++rank) {
      codes.push_back(some_codes(coding, kCount, 0.1 * rank, 40 + rank));
      ranks.push_back(entries_of(scalar_stages(), coding, codes.back(), kCount, 1 << 20));
    }
    for (const int32_t op : {GQSGD_SUM, GQSGD_MEAN}) {
      const auto bytes =
          sums_of(scalar_stages(), coding, ranks, kCount, 1 << 20, GQSGD_FLOAT32, op, 0.3f);
      const float top = coding.levels == Levels::linear ? 5.0f * coding.steps : 5.0f;
      const double factor = op == GQSGD_SUM ? 5 : 1;
      const float step = static_cast<float>(static_cast<double>(0.3f) * factor / top);
      for (size_t e = 0; e < kCount; ++e) {
        float value;
        std::memcpy(&value, &bytes[4 * e], sizeof value);
        ASSERT_EQ(bits_of(value), bits_of(plain_sum(coding, codes, e) * step))
            << describe(coding) << ", value " << e;
      }
    }
  }
}

TEST(SparseStages, EveryTypeAndCut_SameSumsOnEveryInstructionSet) {
  for (const Coding& coding : code_formats(3, 0)) {
    for (const size_t count : {0u, 1u, 33u, 256u, 1000u}) {
      EntriesOfRanks ranks;
      for (uint32_t rank = 0; rank < 3; ++rank) {
        const Words words = some_codes(coding, count, 0.2, 70 + rank);
        ranks.push_back(entries_of(scalar_stages(), coding, words, count, 1 << 20));
      }
      for (const int32_t dtype : kDtypes) {
        for (const int32_t op : {GQSGD_SUM, GQSGD_MEAN}) {
          for (const float scale : {1.0f, 0.0f, 3e38f, 1e-44f, NAN, INFINITY}) {
            const auto expected =
                sums_of(scalar_stages(), coding, ranks, count, 1 << 20, dtype, op, scale);
            for (const Stages* stages : stages_here()) {
              ASSERT_EQ(sums_of(*stages, coding, ranks, count, 96, dtype, op, scale), expected)
                  << stages->name << ", " << describe(coding) << ", scale " << scale;
            }
          }
        }
      }
    }
  }
}

// A peer's entries may be anything, and change while it is added: other processes write it.
TEST(SparseStages, ArbitraryEntries_NothingWrittenOutsideTheRange) {
  std::mt19937 random(3);
  for (const Coding& coding : code_formats(2, 0)) {
    for (const Stages* stages : stages_here()) {
      for (int turn = 0; turn < 100; ++turn) {
        EntriesOfRanks ranks(2, Words(1 + random() % 50));
        for (uint32_t& entry : ranks[0]) entry = random() % 4 ? random() % 4000 << 4 : random();
        std::vector<RankEntries> views = views_of(ranks);
        Guarded<float> values(96, 1);
        for (size_t first = 0; first < 96; first += 32) {
          stages->add_sparse({coding,
                              kSite,
                              {first, 32},
                              views.data(),
                              1,
                              GQSGD_FLOAT32,
                              GQSGD_SUM,
                              values.data() + first,
                              nullptr});
          for (uint32_t& entry : ranks[0]) entry = random() % 8 ? entry : random();
        }
        ASSERT_TRUE(values.intact()) << stages->name << ", " << describe(coding);
      }
    }
  }
}

TEST(SparseStages, EntriesBeyondTheCall_NotConsumed) {
  for (const Coding& coding : code_formats(1, 0)) {
    const EntriesOfRanks ranks = {{entry_of(3, 1), entry_of(100, 1)}};
    std::vector<RankEntries> views = views_of(ranks);
    Guarded<float> values(64, 0);
    scalar_stages().add_sparse({coding,
                                kSite,
                                {0, 64},
                                views.data(),
                                1,
                                GQSGD_FLOAT32,
                                GQSGD_SUM,
                                values.data(),
                                nullptr});
    EXPECT_EQ(views[0].next_entry, 1u);
  }
}

}  // namespace
}  // namespace gq::test
