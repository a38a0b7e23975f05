// Sparse entries by the CUDA stages have the bits of scalar: in tiles, groups and blocks of any
// number, from any alignment, with gaps that need fillers, and with any entries.
#include <gtest/gtest.h>

#include <random>

#include "kernels/codec/sparse.h"
#include "kernels/sparse_workspace.h"
#include "tests/gpu/stages/stages_under_test.h"
#include "tests/unit/kernels/support/guarded.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

constexpr RandomSite kSite{0x123456789ABCDEFull, 7, 11, 13, 0};
constexpr uint64_t kGap = uint64_t{1} << kEntryGapBits;

void place_lane(Words* words, uint32_t bits, size_t e, uint32_t lane) {
  const uint32_t shift = bits * static_cast<uint32_t>(e % codes_per_word(bits));
  uint32_t& word = words->at(e / codes_per_word(bits));
  word = (word & ~(((1u << bits) - 1) << shift)) | lane << shift;
}

/** Zero codes, but for those of `elements`; lanes beyond the last one are anything. */
Words codes_with(const Coding& coding, size_t value_count, const std::vector<size_t>& elements,
                 uint32_t seed) {
  std::mt19937 random(seed);
  Words words(words_for(coding.bits, value_count));
  for (size_t e = 0; e < words.size() * codes_per_word(coding.bits); ++e) {
    place_lane(&words, coding.bits, e, e < value_count ? zero_lane(coding) : random() & 15);
  }
  for (const size_t e : elements) {
    uint32_t lane = random() & ((1u << coding.bits) - 1);
    place_lane(&words, coding.bits, e, lane == zero_lane(coding) ? lane ^ 1 : lane);
  }
  return words;
}

/** Each element with a probability of `share`. */
std::vector<size_t> some_elements(size_t value_count, double share, uint32_t seed) {
  std::mt19937 random(seed);
  std::bernoulli_distribution keeps(share);
  std::vector<size_t> elements;
  for (size_t e = 0; e < value_count; ++e) {
    if (keeps(random)) elements.push_back(e);
  }
  return elements;
}

/** What goes from one range to the next. */
struct State {
  uint64_t skipped = 0, entry_count = 0;
  bool operator==(const State&) const = default;
};

struct Selected {
  Words entries;
  State counted, written;
  bool operator==(const Selected&) const = default;
};

/** Counts, then selects; on a device perhaps with what counting has left. */
Selected select(const Stages& stages, const Coding& coding, const Words& words, size_t value_count,
                size_t offset, State begin, bool counted) {
  Guarded<uint32_t> codes(words, offset);
  std::vector<uint64_t> buffers(select_workspace_bytes(value_count) / 8);
  Selected made{{}, begin, begin};
  const Range range{0, value_count};
  EXPECT_FALSE(failed(stages.count_entries({coding, range, codes.data(), &made.counted.skipped,
                                            &made.counted.entry_count, nullptr, buffers.data()})));
  Guarded<uint32_t> entries(made.counted.entry_count, 3);
  EXPECT_FALSE(
      failed(stages.select({coding, range, codes.data(), entries.data(), &made.written.skipped,
                            &made.written.entry_count, nullptr, buffers.data(), counted})));
  if (counted) made.written = made.counted;
  EXPECT_TRUE(entries.intact()) << stages.name;
  made.entries = entries.values();
  return made;
}

void expect_same_entries(const Coding& coding, const Words& words, size_t value_count,
                         size_t offset, State begin) {
  const Selected plain = select(scalar_stages(), coding, words, value_count, offset, begin, false);
  ASSERT_EQ(plain.counted, plain.written);
  for (const bool counted : {false, true}) {
    ASSERT_EQ(select(stages_under_test, coding, words, value_count, offset, begin, counted), plain)
        << describe(coding) << ", " << value_count << " codes, offset " << offset << ", skipped "
        << begin.skipped << ", counted " << counted;
  }
}

TEST(SelectSparse, AllCountsSharesAndAlignments_ScalarEntries) {
  for (const Coding& coding : code_formats(3, 0)) {
    size_t offset = 0;
    for (const size_t count :
         {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{17}, size_t{63}, size_t{64},
          size_t{65}, size_t{1025}, size_t{kSelectTileCodes - 1}, size_t{kSelectTileCodes},
          size_t{kSelectTileCodes + 1}, size_t{4 * kSelectTileCodes + 77}}) {
      for (const double share : {0.0, 0.0002, 0.1, 1.0}) {
        const auto elements = some_elements(count, share, static_cast<uint32_t>(count) + 1);
        expect_same_entries(coding, codes_with(coding, count, elements, 5), count, offset++ % 5,
                            {});
      }
    }
  }
}

TEST(SelectSparse, FewEntriesAtEdgesOfThreadsAndTiles_ScalarEntries) {
  constexpr size_t kTile = kSelectTileCodes, kCount = 700 * kTile + 9;
  const std::vector<std::vector<size_t>> cases = {{0},
                                                  {63, 64},
                                                  {kTile - 1, kTile},
                                                  {kTile, 3 * kTile - 1},
                                                  {5 * kTile + 4095, 5 * kTile + 4096},
                                                  {kCount - 1},
                                                  {0, 257 * kTile, 514 * kTile + 15, kCount - 1}};
  const Coding coding = code_formats(2, 0).front();
  for (const auto& elements : cases) {
    expect_same_entries(coding, codes_with(coding, kCount, elements, 7), kCount, 0, {});
  }
}

TEST(SelectSparse, GapsThatNeedFillers_ScalarEntries) {
  constexpr size_t kCount = 2 * kSelectTileCodes + 100;
  for (const Coding& coding : code_formats(3, 0)) {
    for (const uint64_t skipped : {kGap - 1, kGap, kGap + 1, kGap - 64, kGap - kSelectTileCodes,
                                   kGap - kSelectTileCodes - 1, 5 * kGap - 3, 700 * kGap + 9}) {
      for (const auto& elements :
           std::vector<std::vector<size_t>>{{},
                                            {0},
                                            {64},
                                            {kSelectTileCodes - 1, kSelectTileCodes},
                                            {kSelectTileCodes},
                                            some_elements(kCount, 0.01, 3)}) {
        const Words words = codes_with(coding, kCount, elements, 9);
        expect_same_entries(coding, words, kCount, 1, {skipped, 0});
        if (!elements.empty()) expect_same_entries(coding, words, kCount, 0, {skipped, 11});
      }
    }
  }
}

using EntriesOfRanks = std::vector<Words>;

struct Added {
  std::vector<uint8_t> values;
  std::vector<uint64_t> passed;  ///< how far each rank is
  bool operator==(const Added&) const = default;
};

struct Sum {
  Coding coding;
  uint64_t first_value = 0;
  size_t value_count = 0;
  size_t step = SIZE_MAX;  ///< values of a range
  int32_t dtype = GQSGD_FLOAT32;
  int32_t op = GQSGD_SUM;
  float scale = 0.7f;
  size_t offset = 0;  ///< of entries, in words, and of values, in elements
};

/** As ranges before `first_value` leave it. */
void pass_values(uint64_t first_value, RankEntries* rank) {
  while (rank->next_entry < rank->entry_count) {
    const uint64_t value = rank->next_value + gap_of_entry(rank->entries[rank->next_entry]);
    if (value >= first_value) return;
    rank->next_entry += 1;
    rank->next_value = value + 1;
  }
}

Added add(const Stages& stages, const Sum& sum, const EntriesOfRanks& ranks) {
  std::vector<Guarded<uint32_t>> places;
  std::vector<RankEntries> views;
  for (const Words& entries : ranks) places.emplace_back(entries, sum.offset);
  for (size_t k = 0; k < ranks.size(); ++k) views.push_back({places[k].data(), ranks[k].size()});
  for (RankEntries& view : views) pass_values(sum.first_value, &view);
  const size_t width = dtype_size_bytes(sum.dtype);
  Guarded<uint8_t> values(sum.value_count * width, sum.offset * width);
  for (size_t first = 0; first < sum.value_count; first += std::min(sum.step, sum.value_count)) {
    const size_t count = std::min(sum.step, sum.value_count - first);
    EXPECT_FALSE(failed(stages.add_sparse({sum.coding,
                                           kSite,
                                           {sum.first_value + first, count},
                                           views.data(),
                                           sum.scale,
                                           sum.dtype,
                                           sum.op,
                                           values.data() + first * width,
                                           nullptr})));
  }
  EXPECT_TRUE(values.intact()) << stages.name;
  Added added{values.values(), {}};
  for (const RankEntries& view : views) {
    added.passed.push_back(view.next_entry);
    added.passed.push_back(view.next_value);
  }
  return added;
}

void expect_same_sums(const Sum& sum, const EntriesOfRanks& ranks) {
  ASSERT_EQ(add(stages_under_test, sum, ranks), add(scalar_stages(), sum, ranks))
      << describe(sum.coding) << ", " << sum.value_count << " values by " << sum.step << ", dtype "
      << sum.dtype << ", " << ranks.size() << " ranks";
}

/** Of codes behind `skipped` zero ones. */
EntriesOfRanks entries_of_ranks(const Coding& coding, size_t value_count, double share,
                                uint64_t skipped = 0) {
  EntriesOfRanks ranks;
  for (uint32_t rank = 0; rank < coding.ranks; ++rank) {
    const double own = rank % 4 == 2 ? 0 : share / (1 + rank % 3);
    const auto elements = some_elements(value_count, own, 20 + rank);
    const Words words = codes_with(coding, value_count, elements, rank);
    ranks.push_back(
        select(scalar_stages(), coding, words, value_count, 0, {skipped, 0}, false).entries);
  }
  return ranks;
}

TEST(AddSparse, AllCountsTypesAndAlignments_ScalarSums) {
  for (const uint32_t ranks : {1u, 2u, 9u}) {
    for (const Coding& coding : code_formats(ranks, 0)) {
      size_t number = 0;
      for (const size_t count :
           {size_t{1}, size_t{17}, size_t{33}, size_t{kAddTileValues - 1}, size_t{kAddTileValues},
            size_t{kAddTileValues + 1}, size_t{3 * kAddTileValues + 55}}) {
        const EntriesOfRanks ranks = entries_of_ranks(coding, count, 0.3);
        for (const int32_t dtype : {GQSGD_FLOAT32, GQSGD_FLOAT16, GQSGD_BFLOAT16, GQSGD_FLOAT64}) {
          Sum sum{coding, 0, count};
          sum.dtype = dtype;
          sum.op = number % 2 ? GQSGD_SUM : GQSGD_MEAN;
          sum.offset = number++ % 5;
          if (number % 3 == 0) sum.step = 4096 + 32;
          expect_same_sums(sum, ranks);
        }
      }
    }
  }
}

TEST(AddSparse, DenseEntriesOfManyBlocks_ScalarSums) {
  for (const Coding& coding : code_formats(2, 0)) {
    const EntriesOfRanks ranks = entries_of_ranks(coding, 30000, 1.0);
    expect_same_sums({coding, 0, 30000}, ranks);
    expect_same_sums({coding, 0, 30000, 9984}, ranks);
  }
}

TEST(AddSparse, MoreRanksThanThreads_ScalarSums) {
  for (const Coding& coding : code_formats(300, 0)) {
    expect_same_sums({coding, 0, 9000, 4000}, entries_of_ranks(coding, 9000, 0.02));
  }
}

TEST(AddSparse, GapsWithFillers_ScalarSums) {
  for (const Coding& coding : code_formats(3, 0)) {
    for (const uint64_t skipped : {2 * kGap, 2 * kGap - 32, 40 * kGap - 4096}) {
      Sum sum{coding, skipped, 20000};
      for (const int32_t dtype : {GQSGD_FLOAT32, GQSGD_BFLOAT16}) {
        sum.dtype = dtype;
        expect_same_sums(sum, entries_of_ranks(coding, 20000, 0.05, skipped));
        expect_same_sums(sum, entries_of_ranks(coding, 20000, 0.0003, skipped + 5));
      }
    }
  }
}

TEST(AddSparse, ZeroAndNonfiniteScales_ScalarSums) {
  for (const Coding& coding : code_formats(2, 0)) {
    for (const float scale : {0.0f, float_of(0x7f800000), float_of(0x7fc00000), 3e38f, 1e-44f}) {
      Sum sum{coding, 0, 9000, 4096};
      sum.scale = scale;
      expect_same_sums(sum, entries_of_ranks(coding, 9000, 0.1));
    }
  }
}

TEST(AddSparse, ArbitraryEntries_ScalarSums) {
  std::mt19937 random(3);
  for (const Coding& coding : code_formats(3, 0)) {
    for (int iteration = 0; iteration < 30; ++iteration) {
      EntriesOfRanks ranks(3, Words(random() % 9000));
      const uint32_t kind = random() % 3;
      for (Words& entries : ranks) {
        for (uint32_t& entry : entries) {
          entry = kind == 0 ? random() : kind == 1 ? random() % 16 << 8 : random() & 0x3ff;
        }
      }
      Sum sum{coding, 0, 20000, iteration % 2 ? size_t{4096} : SIZE_MAX};
      expect_same_sums(sum, ranks);
    }
  }
}

}  // namespace
}  // namespace gq::test
