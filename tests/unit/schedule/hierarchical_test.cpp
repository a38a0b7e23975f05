// The hierarchical schedule keeps every rule of world.h, for any nodes, and costs what its closed
// form says.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "src/schedule/nodes.h"
#include "tests/unit/schedule/world.h"
#include "tools/plan/schedules.h"

namespace gq {
namespace {

using Ids = std::vector<uint32_t>;

/** Nodes of these sizes, one after the other. */
Ids in_order(const std::vector<uint32_t>& sizes) {
  Ids ids;
  for (uint32_t node = 0; node < sizes.size(); ++node) ids.insert(ids.end(), sizes[node], node);
  return ids;
}

/** Ranks over so many nodes, round-robin. */
Ids dealt(uint32_t ranks, uint32_t nodes) {
  Ids ids;
  for (uint32_t rank = 0; rank < ranks; ++rank) ids.push_back(rank % nodes);
  return ids;
}

/** Any nodes: each rank on one of so many, by chance. */
Ids scattered(uint32_t ranks, uint32_t nodes, uint32_t seed) {
  Ids ids;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    seed = seed * 1664525u + 1013904223u;
    ids.push_back((seed >> 16) % nodes * 7);
  }
  return ids;
}

std::string text_of(const Ids& ids) {
  std::string text;
  for (const uint32_t id : ids) text += (text.empty() ? "nodes " : ":") + std::to_string(id);
  return text;
}

const Schedule& hierarchical() { return *schedule_by_name("hierarchical"); }

uint64_t sent_by_all(const World& world) {
  uint64_t values = 0;
  for (uint32_t rank = 0; rank < world.shape().ranks; ++rank) values += world.sent_by(rank).values;
  return values;
}

void expect_rules_kept(const Ids& ids, uint64_t value_count, uint64_t chunk, Turns turns,
                       uint32_t seed, bool block_norms = false, uint32_t pipeline_depth = 1) {
  const Nodes nodes(ids);
  if (nodes.is_flat()) return;
  const uint32_t ranks = static_cast<uint32_t>(ids.size());
  const bool encodes_down = (ranks + value_count + seed) % 2 == 1;
  const Shape shape{ranks,   value_count, 32,     chunk,       block_norms, pipeline_depth,
                    nullptr, 0,           &nodes, encodes_down};
  World world(hierarchical(), shape);
  const std::string where = text_of(ids) + ", " + std::to_string(value_count) + " values" +
                            (encodes_down ? ", sums between nodes" : "");
  ASSERT_EQ(walk(&world, turns, seed).text(), "") << where;
  // Every rank's codes come to a sum and every result comes back: fewer are impossible.
  ASSERT_EQ(sent_by_all(world), 2 * (ranks - 1) * value_count) << where;
  uint64_t reductions = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const Totals totals = totals_of(hierarchical(), shape, rank);
    ASSERT_EQ(totals.values_sent, world.sent_by(rank).values) << where;
    reductions += totals.reductions;
  }
  ASSERT_EQ(reductions, (ranks - 1) * value_count) << where;
}

const uint64_t kValueCounts[] = {0, 1, 33, 1500};

TEST(Hierarchical, 3To33RanksOnNodesOfAllKinds_EveryRuleKept) {
  for (uint32_t ranks = 3; ranks <= 33; ++ranks) {
    for (const uint64_t value_count : kValueCounts) {
      for (uint32_t nodes = 2; nodes < ranks; nodes += 1 + nodes / 3) {
        const Ids blocks = [&] {
          Ids ids = dealt(ranks, nodes);
          std::sort(ids.begin(), ids.end());
          return ids;
        }();
        for (const Ids& ids :
             {dealt(ranks, nodes), blocks, in_order({1, ranks - 1}), in_order({ranks - 1, 1}),
              scattered(ranks, nodes, ranks * 100 + nodes)}) {
          ASSERT_NO_FATAL_FAILURE(expect_rules_kept(ids, value_count, 64, Turns::one_move_each, 0,
                                                    ranks % 2 == 1, ranks % 3 == 0 ? 4 : 1));
        }
      }
    }
  }
}

TEST(Hierarchical, AnyInterleaving_EveryRuleKept) {
  for (const auto& sizes : std::vector<std::vector<uint32_t>>{
           {1, 3}, {2, 2, 2}, {3, 5}, {5, 3, 1}, {2, 1, 1, 4}, {8, 8}, {1, 1, 1, 2}}) {
    const Ids ids = in_order(sizes);
    for (uint32_t seed = 0; seed < 10; ++seed) {
      for (const Turns turns :
           {Turns::greedy_up, Turns::greedy_down, Turns::random, Turns::starve_one}) {
        ASSERT_NO_FATAL_FAILURE(expect_rules_kept(ids, 4000, 64, turns, seed));
        ASSERT_NO_FATAL_FAILURE(expect_rules_kept(ids, 4000, 32, turns, seed, true));
        ASSERT_NO_FATAL_FAILURE(expect_rules_kept(ids, 4000, 32, turns, seed, false, 4));
      }
    }
  }
}

TEST(Hierarchical, EqualNodes_CallSentTwiceButForTheirOwnShards) {
  for (const auto& [nodes, locals] : std::vector<std::pair<uint32_t, uint32_t>>{{2, 4}, {3, 2}}) {
    const Nodes places(in_order(std::vector<uint32_t>(nodes, locals)));
    const uint64_t value_count = uint64_t{32} * nodes * locals * 10;
    const Shape shape{nodes * locals, value_count, 32, 64, false, 1, nullptr, 0, &places};
    std::map<uint32_t, uint64_t> sent_out;  // by node
    for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
      MoveCursor cursor(&hierarchical(), shape, rank);
      for (Move move; cursor.next(&move);) {
        const bool leaves =
            move.kind == MoveKind::send && places.node_of(move.peer) != places.node_of(rank);
        if (leaves) sent_out[places.node_of(rank)] += move.value_count;
      }
    }
    for (const auto& [node, values] : sent_out) {
      EXPECT_EQ(values, 2 * (nodes - 1) * value_count / nodes) << node;
    }
    EXPECT_EQ(sent_out.size(), nodes);
  }
}

TEST(Hierarchical, Owners_AddPartsAndShardsOfTheFormat) {
  const Nodes nodes(Ids{4, 9, 9, 4, 9, 9, 9, 7});  // docs/FORMAT.md, section 10: 2 + 5 + 1 ranks
  const Shape shape{8, 15 * 64, 32, 64, false, 1, nullptr, 0, &nodes};
  for (uint32_t rank = 0; rank < 8; ++rank) {
    MoveCursor cursor(&hierarchical(), shape, rank);
    for (Move move; cursor.next(&move);) {
      if (move.kind != MoveKind::reduce_many) continue;
      const uint32_t shard = static_cast<uint32_t>(move.first_value / 64);
      const uint32_t part = shard / 3, locals = nodes.size_of(nodes.node_of(rank));
      ASSERT_EQ(part % locals, nodes.local_of(rank));
      ASSERT_EQ(move.hop, move.addends == Addends::node ? 1u : 2u);
      if (move.addends == Addends::nodes) {
        ASSERT_EQ(shard % 3, nodes.node_of(rank));
      }
    }
  }
}

TEST(Hierarchical, NodesEncodeDown_SumsBetweenNodesAlone) {
  const Nodes nodes(Ids{4, 9, 9, 4, 9, 9, 9, 7});
  for (const bool encodes_down : {false, true}) {
    const Shape shape{8,       15 * 64, 32,     64,          false, 1,
                      nullptr, 0,       &nodes, encodes_down};
    uint32_t sums_of_one = 0;
    for (uint32_t rank = 0; rank < 8; ++rank) {
      MoveCursor cursor(&hierarchical(), shape, rank);
      for (Move move; cursor.next(&move);) {
        const uint32_t node = nodes.node_of(rank);
        const bool is_reduction = move.kind == MoveKind::reduce_many;
        sums_of_one += is_reduction && move.addends == Addends::node && nodes.size_of(node) == 1;
        if (move.kind != MoveKind::receive_operand && !is_reduction) continue;
        const bool within = is_reduction ? move.addends == Addends::node
                                         : nodes.node_of(move.peer) == node;
        ASSERT_EQ(move.content == Content::sums, encodes_down && !within);
      }
    }
    EXPECT_EQ(sums_of_one, encodes_down ? 15u : 0u);  // the call has 15 chunks
  }
}

TEST(Nodes, Nodes_NumberedByTheirLowestRanks) {
  const Nodes nodes(Ids{7, 3, 7, 3, 3, 900});
  EXPECT_EQ(nodes.count(), 3u);
  EXPECT_EQ(nodes.part_count(), 3u);
  EXPECT_EQ(nodes.node_of(3), 1u);
  EXPECT_EQ(nodes.local_of(4), 2u);
  EXPECT_EQ(nodes.rank_of(0, 1), 2u);
  EXPECT_EQ(nodes.owner(0, 2), 0u);
  EXPECT_EQ(nodes.digest(), 0x2856u);  // tests/vectors/header.txt
  EXPECT_EQ(nodes.digest(), Nodes(Ids{0, 1, 0, 1, 1, 2}).digest());
  EXPECT_NE(nodes.digest(), Nodes(Ids{0, 1, 0, 1, 2, 2}).digest());
  EXPECT_TRUE(Nodes(Ids{5, 5}).is_flat());
  EXPECT_TRUE(Nodes(Ids{1, 2, 3}).is_flat());
  EXPECT_FALSE(nodes.is_flat());
}

}  // namespace
}  // namespace gq
