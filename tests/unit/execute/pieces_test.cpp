// Pieces of moves where there are groups: every value of every segment in one of them, exactly
// once, in the place of its group that docs/FORMAT.md, section 16, gives it.
#include "src/execute/pieces.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace gq {
namespace {

constexpr uint32_t kMean = 7;  // half bits

/** Tensors of all lengths, of which many are short or empty. */
std::vector<Part> random_segments(std::mt19937& engine, uint64_t alignment) {
  constexpr uint64_t kLengths[] = {0, 1, 100, 128, 129, 1000, 1024, 5000, 40000};
  std::vector<Part> segments(1 + engine() % 12);
  uint64_t first = 0;
  for (Part& segment : segments) {
    const uint64_t most = kLengths[engine() % std::size(kLengths)];
    segment = {first, engine() % 2 == 0 ? most : engine() % (most + 1)};
    first += (segment.value_count + alignment - 1) / alignment * alignment;
  }
  return segments;
}

uint64_t count_of(const std::vector<Part>& segments) {
  return segments.back().first_value + segments.back().value_count;
}

/** How often pieces had each value of a call. */
struct Coverage {
  std::vector<int> seen;
  std::vector<Part> segments;
  Groups groups;

  void take(const Piece& piece, const Move& move) {
    const Part& segment = segments[piece.segment];
    const GroupPlace& place = piece.range.group;
    const uint64_t group = (move.first_value + piece.skipped) / groups.group_values;
    uint64_t value = piece.range.first_value, left = piece.range.value_count;
    ASSERT_GT(left, 0u);
    ASSERT_EQ(place.first_block, piece.into_group / kAdaptiveBlock);
    for (uint64_t into = piece.into_group; left > 0;) {
      const uint64_t here = std::min<uint64_t>(kGranuleValues, left);
      ASSERT_GE(value, segment.first_value);
      ASSERT_LE(value + here, segment.first_value + segment.value_count);
      for (uint64_t e = 0; e < here; ++e) ++seen[value + e];
      // What the format says is here.
      ASSERT_EQ(groups.first_value(group) + into / kGranuleValues * groups.stride_values() +
                    into % kGranuleValues,
                value);
      value += place.stride_values;
      into += kGranuleValues;
      left -= here;
    }
  }

  void expect_each_once() const {
    size_t segment = 0;
    for (uint64_t value = 0; value < seen.size(); ++value) {
      while (segment + 1 < segments.size() && segments[segment + 1].first_value <= value) ++segment;
      const Part& part = segments[segment];
      const bool is_there = value < part.first_value + part.value_count;
      ASSERT_EQ(seen[value], is_there ? 1 : 0) << "value " << value << ", segment " << segment;
    }
  }
};

/** The blocks of a group, with those of short granules. */
uint32_t blocks_of(const Groups& groups, uint64_t group) {
  uint64_t blocks = 0;
  for (uint64_t k = 0; k < groups.group_values / kGranuleValues; ++k) {
    const uint64_t first = groups.first_value(group) + k * groups.stride_values();
    if (first >= groups.value_count) break;
    blocks += adaptive_blocks(std::min<uint64_t>(kGranuleValues, groups.value_count - first));
  }
  return static_cast<uint32_t>(blocks);
}

// Moves of any whole groups, as chunks and shards of a call have them.
TEST(GroupPieces, RandomTensors_EachValueOnceInItsPlace) {
  std::mt19937 engine(11);
  for (int turn = 0; turn < 400; ++turn) {
    const std::vector<Part> segments = random_segments(engine, kAdaptiveBlock);
    if (count_of(segments) == 0) continue;
    const uint32_t ranks = 1 + engine() % 9;
    const Groups groups = interleaved_groups(count_of(segments), kMean, ranks);
    Coverage coverage{std::vector<int>(groups.value_count), segments, groups};
    const bool alone = segments.size() == 1;
    for (uint64_t group = 0; group < groups.group_count;) {
      Move move{};
      move.first_value = group * groups.group_values;
      const uint64_t some = std::min<uint64_t>(1 + engine() % 3, groups.group_count - group);
      move.value_count = some * groups.group_values;
      GroupPieces pieces(move, alone ? nullptr : &segments, groups, kMean);
      for (Piece piece; pieces.next(&piece);) {
        coverage.take(piece, move);
        if (testing::Test::HasFatalFailure()) FAIL() << "turn " << turn;
        const uint64_t here = (move.first_value + piece.skipped) / groups.group_values;
        ASSERT_EQ(piece.range.group.block_count, blocks_of(groups, here)) << "turn " << turn;
        ASSERT_EQ(piece.range.group.plane_count, groups.group_planes);
      }
      group += some;
    }
    ASSERT_NO_FATAL_FAILURE(coverage.expect_each_once()) << "turn " << turn;
  }
}

// Rice codes have no blocks: tensors begin at multiples of 32.
TEST(GroupPieces, RandomTensorsOf32Values_EachValueOnceInItsPlace) {
  std::mt19937 engine(14);
  for (int turn = 0; turn < 400; ++turn) {
    const std::vector<Part> segments = random_segments(engine, kValueAlignment);
    if (count_of(segments) == 0) continue;
    const Groups groups = interleaved_rice_groups(count_of(segments), kMean, 1 + engine() % 9);
    Coverage coverage{std::vector<int>(groups.value_count), segments, groups};
    Move move{};
    move.value_count = groups.padded_count();
    GroupPieces pieces(move, &segments, groups, kMean, kValueAlignment);
    for (Piece piece; pieces.next(&piece);) {
      coverage.take(piece, move);
      if (testing::Test::HasFatalFailure()) FAIL() << "turn " << turn;
    }
    ASSERT_NO_FATAL_FAILURE(coverage.expect_each_once()) << "turn " << turn;
  }
}

// The last group of a slice has planes of its own; chunks end with a group or with the slice.
TEST(GroupPieces, RandomSlices_EachValueOnceInItsPlace) {
  std::mt19937 engine(12);
  for (int turn = 0; turn < 200; ++turn) {
    constexpr uint64_t kGroupValues = kGroupBlocks * kAdaptiveBlock;
    const std::vector<Part> segments = random_segments(engine, kGroupValues);
    const Groups groups = consecutive_groups(count_of(segments), kMean);
    Coverage coverage{std::vector<int>(groups.value_count), segments, groups};
    for (const Part& slice : segments) {
      for (uint64_t done = 0; done < slice.value_count;) {
        Move move{};
        move.first_value = slice.first_value + done;
        move.value_count =
            std::min<uint64_t>((1 + engine() % 3) * kGroupValues, slice.value_count - done);
        GroupPieces pieces(move, &segments, groups, kMean);
        for (Piece piece; pieces.next(&piece);) {
          coverage.take(piece, move);
          if (testing::Test::HasFatalFailure()) FAIL() << "turn " << turn;
          const uint64_t rest = slice.value_count - done - piece.skipped;
          const uint64_t blocks = adaptive_blocks(std::min<uint64_t>(rest, kGroupValues));
          ASSERT_EQ(piece.range.group.block_count, blocks) << "turn " << turn;
          ASSERT_EQ(piece.range.group.plane_count, kMean * blocks / 2) << "turn " << turn;
        }
        done += move.value_count;
      }
    }
    ASSERT_NO_FATAL_FAILURE(coverage.expect_each_once()) << "turn " << turn;
  }
}

TEST(Pieces, RandomTensors_EachValueOnce) {
  std::mt19937 engine(13);
  for (int turn = 0; turn < 200; ++turn) {
    const std::vector<Part> segments = random_segments(engine, 32);
    std::vector<int> seen(count_of(segments));
    for (uint64_t first = 0; first < seen.size();) {
      Move move{};
      move.first_value = first;
      move.value_count = std::min<uint64_t>(32 * (1 + engine() % 300), seen.size() - first);
      Pieces pieces(move, &segments);
      for (Piece piece; pieces.next(&piece);) {
        ASSERT_EQ(piece.range.first_value, move.first_value + piece.skipped);
        for (uint64_t e = 0; e < piece.range.value_count; ++e) {
          ++seen[piece.range.first_value + e];
        }
      }
      first += move.value_count;
    }
    const Coverage coverage{seen, segments, {}};
    ASSERT_NO_FATAL_FAILURE(coverage.expect_each_once()) << "turn " << turn;
  }
}

}  // namespace
}  // namespace gq
