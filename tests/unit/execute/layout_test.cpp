// Places in an arena: nothing overlaps, and the arena is no larger than predicted.
#include "src/plan/layout.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/api/quantizer/quantizer_spec.h"
#include "src/plan/plan.h"
#include "src/schedule/nodes.h"
#include "tests/support/succeeds.h"

namespace gq {
namespace {

struct Case {
  std::string quantizer;
  int32_t schedule;
  uint32_t ranks;
  uint64_t value_count;
  uint64_t chunk_value_count;
  bool reads_in_place;
  const Nodes* nodes = nullptr;
};

Plan plan_of(const Case& test) {
  Format format;
  EXPECT_TRUE(test::succeeds(parse_quantizer(test.quantizer.c_str(), &format)));
  PlanRequest request{&format,          test.schedule,          test.ranks,
                      test.value_count, test.chunk_value_count, test.reads_in_place};
  request.nodes = test.nodes;
  Plan plan;
  EXPECT_TRUE(test::succeeds(make_plan(request, &plan)));
  return plan;
}

/** An arena in which every byte remembers what lies there. */
class Bytes {
 public:
  explicit Bytes(size_t size_bytes) : tags_(size_bytes) {}

  /** "" if these bytes are in the arena and held nothing but the same. */
  std::string take(size_t offset_bytes, size_t size_bytes, uint64_t tag) {
    if (offset_bytes + size_bytes > tags_.size()) return "outside the arena";
    for (size_t k = offset_bytes; k < offset_bytes + size_bytes; ++k) {
      if (tags_[k] != 0 && tags_[k] != tag) return "over something else";
      tags_[k] = tag;
    }
    return "";
  }

 private:
  std::vector<uint64_t> tags_;
};

/** Sums may lie over the codes of the same values, nothing else over anything else. */
uint64_t tag_of(const Plan& plan, Content content, uint64_t first_value) {
  const bool one_place = plan.coding.bits == plan.coding.bits_down;
  const Content place = content == Content::sums && one_place ? Content::codes : content;
  return 4 * (first_value + 1) + static_cast<uint64_t>(place);
}

/** What a move writes into this rank's own arena, operands aside. */
bool writes(const Plan& plan, const Move& move, Content* content) {
  *content = move.content;
  const bool sums = move.addends != Addends::node || plan.shape.encodes_nodes_down;
  if (move.kind == MoveKind::norm) *content = Content::norms;
  if (move.kind == MoveKind::reduce_many) *content = sums ? Content::sums : Content::codes;
  return move.kind == MoveKind::norm || move.kind == MoveKind::quantize ||
         move.kind == MoveKind::reduce_many || move.kind == MoveKind::receive_result;
}

std::string walk(const Case& test, uint32_t rank) {
  const Plan plan = plan_of(test);
  const Layout& layout = plan.layout;
  Bytes bytes(layout.arena_bytes());
  std::string failure;
  MoveCursor cursor(plan.schedule, plan.shape, rank);
  for (Move move; failure.empty() && cursor.next(&move);) {
    Content content;
    if (!writes(plan, move, &content)) continue;
    // Peers' sums stay where they are read, but for transports that copy.
    const bool is_result = move.kind == MoveKind::receive_result;
    if (is_result && content != Content::norms && test.reads_in_place) continue;
    const bool lands = is_result && !test.reads_in_place;
    const uint64_t tag = tag_of(plan, content, move.first_value);
    failure = bytes.take(lands ? layout.result_bytes(content, move.first_value)
                               : layout.offset_bytes(content, move.first_value),
                         layout.size_bytes(content, move.value_count), lands ? ~tag : tag);
  }
  const uint64_t chunk = std::min(plan.shape.chunk_value_count, test.value_count);
  const bool has_slots = !test.reads_in_place && test.ranks > 1;
  const uint64_t slots = has_slots ? test.ranks * layout.slot_count() : 0;
  for (uint64_t slot = 0; failure.empty() && slot < slots; ++slot) {
    const uint32_t peer = static_cast<uint32_t>(slot / layout.slot_count());
    const size_t norms_bytes =
        plan.shape.block_norms ? layout.size_bytes(Content::norms, chunk) : 0;
    size_t operand_bytes = std::max(layout.size_bytes(Content::codes, chunk), norms_bytes);
    if (plan.shape.encodes_nodes_down) {
      const uint64_t shard = shard_value_count(plan.shape, shard_count(plan.shape));
      const size_t sums_bytes = layout.size_bytes(Content::sums, std::min(chunk, shard));
      operand_bytes = std::max(operand_bytes, sums_bytes);
    }
    failure = bytes.take(layout.landing_bytes(peer, slot % layout.slot_count()), operand_bytes,
                         uint64_t{1} << 63 | slot);
  }
  return failure;
}

const char* const kFormats[] = {
    "none",
    "bf16",
    "paper-gl4",
    "paper-gl8,block=32",
    "paper-gl8,block=64,rescale=true",
    "paper-gl4,block=32,rescale=true,bits_down=8",
    "paper-gl8,bits_down=4",
    "paper-gl8,block=65536,rescale=true,bits_down=4",
};

TEST(Layout, Direct_NoOverlapInTheArena) {
  for (const std::string quantizer : kFormats) {
    for (const uint32_t ranks : {1u, 2u, 3u, 5u}) {
      for (const uint64_t value_count : {0u, 1u, 33u, 1000u, 5000u}) {
        for (const uint64_t chunk : {1u, 64u, 100u, 65536u}) {
          for (const bool reads_in_place : {false, true}) {
            const Case test{quantizer, GQSGD_SCHEDULE_DIRECT, ranks, value_count,
                            chunk,     reads_in_place};
            for (uint32_t rank = 0; rank < ranks; ++rank) {
              ASSERT_EQ(walk(test, rank), "")
                  << quantizer << ", rank " << rank << " of " << ranks << ", " << value_count
                  << " values, chunks of " << chunk << (reads_in_place ? ", in place" : "");
            }
          }
        }
      }
    }
  }
}

TEST(Layout, Hierarchy_NoOverlapInTheArena) {
  const std::vector<uint32_t> groups[] = {{0, 1, 1, 1}, {0, 0, 1, 1}, {0, 1, 2, 0, 1, 2, 2}};
  for (const std::string quantizer : kFormats) {
    for (const std::vector<uint32_t>& ids : groups) {
      const Nodes nodes(ids);
      const uint32_t ranks = static_cast<uint32_t>(ids.size());
      for (const uint64_t value_count : {1u, 33u, 5000u}) {
        for (const uint64_t chunk : {1u, 100u, 65536u}) {
          for (const bool reads_in_place : {false, true}) {
            const Case test{quantizer, GQSGD_SCHEDULE_HIERARCHICAL, ranks, value_count,
                            chunk,     reads_in_place,              &nodes};
            for (uint32_t rank = 0; rank < ranks; ++rank) {
              ASSERT_EQ(walk(test, rank), "")
                  << quantizer << ", rank " << rank << " of " << ranks << ", " << value_count
                  << " values, chunks of " << chunk << (reads_in_place ? ", in place" : "");
            }
          }
        }
      }
    }
  }
}

/** What a gather takes of a rank and puts beside the blocks of the others is as long as a whole
 *  part, though the last part is shorter. Where it is empty there is no gather. */
TEST(Layout, OnStreams_PlacesForWholeParts) {
  for (const std::string quantizer : kFormats) {
    Format format;
    ASSERT_TRUE(test::succeeds(parse_quantizer(quantizer.c_str(), &format)));
    for (const uint32_t ranks : {2u, 3u, 8u}) {
      for (const uint64_t value_count : {1u, 33u, 65u, 1000u, 1023u, 5000u}) {
        PlanRequest request{&format, GQSGD_SCHEDULE_DIRECT, ranks, value_count, 65536, false};
        request.stages_are_launches = true;
        Plan plan;
        ASSERT_TRUE(test::succeeds(make_plan(request, &plan)));
        const Layout& layout = plan.layout;
        const Part last_part = part_of(plan.shape, ranks, ranks - 1);
        if (last_part.value_count == 0) continue;
        const size_t results_bytes = layout.result_bytes(Content::sums, 0);
        for (const Content content : {Content::sums, Content::norms}) {
          if (content == Content::norms && plan.coding.block == 0) continue;
          const size_t all_bytes = layout.result_bytes(content, 0);
          const uint64_t shard = shard_value_count(plan.shape, ranks);
          const size_t block_bytes = layout.result_bytes(content, shard) - all_bytes;
          const size_t end_bytes =
              content == Content::sums ? layout.landing_bytes(0, 0) : results_bytes;
          EXPECT_LE(all_bytes + ranks * block_bytes, end_bytes) << quantizer << ' ' << value_count;
          EXPECT_LE(layout.offset_bytes(content, last_part.first_value) + block_bytes, results_bytes)
              << quantizer << ' ' << value_count;
        }
      }
    }
  }
}

TEST(Layout, Scales_FollowTheCodesOfTheirChunk) {
  const Plan plan =
      plan_of({"paper-gl8,block=128,rescale=true", GQSGD_SCHEDULE_DIRECT, 2, 1000, 256, true});
  EXPECT_EQ(plan.layout.size_bytes(Content::codes, 256), 256u);
  EXPECT_EQ(plan.layout.scales_offset_bytes(256), 256u);
  EXPECT_EQ(plan.layout.size_bytes(Content::sums, 256), 256u + 2 * 2);
  EXPECT_EQ(plan.layout.offset_bytes(Content::sums, 256), 256u + 2 * 2);
  EXPECT_EQ(plan.layout.size_bytes(Content::norms, 1000), 2u * 8);
}

TEST(Layout, Chunks_RoundedUpForNormsAndRotations) {
  const auto chunk_of = [](const char* quantizer) {
    return plan_of({quantizer, GQSGD_SCHEDULE_DIRECT, 2, 1000000, 100, true})
        .shape.chunk_value_count;
  };
  EXPECT_EQ(chunk_of("paper-gl8"), 128u);
  EXPECT_EQ(chunk_of("paper-gl8,block=256"), 256u);
  EXPECT_EQ(chunk_of("paper-gl8,block=65536"), 65536u);
}

TEST(Layout, Arena_HoldsListsBesideTheCodes) {
  for (const char* quantizer : {"paper-gl8", "paper-ge4"}) {
    for (const uint32_t ranks : {1u, 2u, 3u, 17u}) {
      for (const uint64_t value_count : {0u, 1u, 33u, 5000u}) {
        for (const bool in_place : {true, false}) {
          const Plan plan =
              plan_of({quantizer, GQSGD_SCHEDULE_SPARSE, ranks, value_count, 64, in_place});
          const Layout& layout = plan.layout;
          const size_t entries_bytes = 4 * layout.sparse_entries_max();
          const size_t codes_bytes = layout.size_bytes(Content::codes, value_count);
          EXPECT_LE(entries_bytes * ranks, 2 * codes_bytes);
          EXPECT_GT((entries_bytes + 4) * ranks, 2 * codes_bytes);
          Bytes bytes(layout.arena_bytes());
          EXPECT_EQ(bytes.take(0, codes_bytes, 1), "");
          EXPECT_EQ(bytes.take(layout.sparse_bytes(), entries_bytes, 2), "");
          for (uint32_t peer = 0; !in_place && peer < ranks; ++peer) {
            EXPECT_EQ(bytes.take(layout.sparse_landing_bytes(peer), entries_bytes, 3 + peer), "");
          }
          // With too many sparse entries the moves find the places that they have in direct.
          const Plan direct =
              plan_of({quantizer, GQSGD_SCHEDULE_DIRECT, ranks, value_count, 64, in_place});
          EXPECT_GE(layout.arena_bytes(), direct.layout.arena_bytes());
          EXPECT_EQ(layout.landing_bytes(ranks, 0), direct.layout.landing_bytes(ranks, 0));
        }
      }
    }
  }
}

TEST(Plan, ScheduleSparse_UnsupportedFieldNamed) {
  const struct {
    const char* quantizer;
    const char* field;
  } cases[] = {{"none", "levels=none"},
               {"bf16", "levels=bf16"},
               {"fp16", "levels=fp16"},
               {"paper-gl8,block=32", "block"},
               {"paper-gl8,rotate=hadamard", "rotate=hadamard"},
               {"paper-gl8,bits_down=4", "bits_down other than bits"},
               {"paper-gl8,rounding_down=subtractive", "rounding_down=subtractive"},
               {"relative-8", "mantissa_bits"},
               {"blocks-8", "block"}};
  for (const auto& test : cases) {
    Format format;
    ASSERT_TRUE(test::succeeds(parse_quantizer(test.quantizer, &format)));
    Plan plan;
    const Status status = make_plan({&format, GQSGD_SCHEDULE_SPARSE, 4, 100, 64, true}, &plan);
    EXPECT_EQ(status.code(), GQSGD_INVALID_ARGUMENT);
    const std::string sentence = status.sentence();
    EXPECT_NE(sentence.find(std::string("does not go with ") + test.field), std::string::npos)
        << sentence;
    EXPECT_NE(sentence.find("use schedule direct"), std::string::npos) << sentence;
  }
  for (const char* quantizer : {"paper-gl4,norm=2:2,rounding=correlated", "paper-ge8"}) {
    Format format;
    ASSERT_TRUE(test::succeeds(parse_quantizer(quantizer, &format)));
    Plan plan;
    EXPECT_TRUE(make_plan({&format, GQSGD_SCHEDULE_SPARSE, 200, 100, 64, true}, &plan).ok());
  }
}

TEST(Plan, SchedulesInCodeForm_FieldsThatNeedAnOwner_Refused) {
  const struct {
    const char* quantizer;
    const char* field;
  } cases[] = {{"paper-gl8,bits_down=4", "bits_down other than bits"},
               {"paper-gl8,block=64,rescale=true", "rescale=true"}};
  for (const auto& test : cases) {
    Format format;
    ASSERT_TRUE(test::succeeds(parse_quantizer(test.quantizer, &format)));
    for (const int32_t schedule :
         {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_TREE, GQSGD_SCHEDULE_BUTTERFLY}) {
      for (const uint32_t ranks : {1u, 4u}) {
        Plan plan;
        const Status status = make_plan({&format, schedule, ranks, 100, 64, true}, &plan);
        EXPECT_EQ(status.code(), GQSGD_INVALID_ARGUMENT);
        const std::string sentence = status.sentence();
        EXPECT_NE(sentence.find(schedule_by_id(schedule)->name), std::string::npos) << sentence;
        EXPECT_NE(sentence.find(test.field), std::string::npos) << sentence;
        EXPECT_NE(sentence.find("use schedule direct or auto"), std::string::npos) << sentence;
      }
    }
    Plan plan;
    EXPECT_TRUE(make_plan({&format, GQSGD_SCHEDULE_AUTO, 4, 100, 64, true}, &plan).ok());
  }
}

}  // namespace
}  // namespace gq
