// The walk over one rank's moves against all ranks simulated message by message, against the walks
// of other ranks, and against times worked out by hand.
#include "src/plan/cost/cost_walk.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/schedule/nodes.h"
#include "tests/support/succeeds.h"
#include "tools/plan/schedules.h"
#include "tools/plan/timeline.h"

namespace gq {
namespace {

constexpr uint64_t kChunk = 1024;

/** A machine on which a full chunk of codes takes 1000 ns on a link. */
CostConstants machine() {
  CostConstants constants{};
  constants.latency_ns = 300;
  constants.byte_ns = 1000.0 / kChunk;
  return constants;
}

/** Per value, in units of the time that its code is on a link. A wide sum of n takes n - 1
 *  reductions, as in the timeline. */
CodecCost codec(uint32_t ranks) {
  const double quantize = 0.25, reduce = 0.5, dequantize = 0.25;
  const double unit = 1000.0 / kChunk;
  CodecCost cost;
  cost.value_ns[static_cast<size_t>(CostStage::quantize)] = quantize * unit;
  cost.value_ns[static_cast<size_t>(CostStage::reduce)] = reduce * unit;
  cost.value_ns[static_cast<size_t>(CostStage::sum)] = ranks > 1 ? reduce * unit : 0;
  cost.value_ns[static_cast<size_t>(CostStage::add)] = reduce * unit;
  cost.value_ns[static_cast<size_t>(CostStage::dequantize)] = dequantize * unit;
  return cost;
}

Plan plan_of(const char* schedule, uint32_t ranks, uint64_t value_count, uint64_t chunk = kChunk,
             bool travels = false) {
  const Format format;
  Plan plan;
  const PlanRequest request{&format, schedule_by_name(schedule)->id, 1, value_count, chunk,
                            !travels};
  EXPECT_TRUE(test::succeeds(make_plan(request, &plan)));
  plan.shape.ranks = ranks;  // levels do not matter here, so that any number of ranks is legal
  return plan;
}

/** So many ranks on each node, in order. */
Nodes nodes_of(const std::vector<uint32_t>& sizes) {
  std::vector<uint32_t> ids;
  for (uint32_t node = 0; node < sizes.size(); ++node) ids.insert(ids.end(), sizes[node], node);
  return Nodes(ids);
}

/** A hierarchy whose shards are so many chunks. */
Plan hierarchy_of(const Nodes& nodes, uint64_t chunks) {
  uint32_t ranks = 0;
  for (uint32_t node = 0; node < nodes.count(); ++node) ranks += nodes.size_of(node);
  const uint64_t shards = uint64_t{nodes.count()} * nodes.part_count();
  Plan plan = plan_of("direct", ranks, shards * chunks * kChunk);
  plan.schedule = schedule_by_name("hierarchical");
  plan.shape.nodes = &nodes;
  return plan;
}

double timeline_ns(const Plan& plan) {
  Machine idealised{.latency = 0.3, .quantize = 0.25, .reduce = 0.5, .dequantize = 0.25};
  return 1000 * finish_time(timeline(*plan.schedule, plan.shape, idealised));
}

double walked_ns(const Plan& plan, uint32_t rank = 0) {
  return walk_moves(plan, codec(plan.shape.ranks), machine(), rank).finish_ns;
}

TEST(CostWalk, RingOfTwo_ByHand) {
  // Quantize 250, message 1000 and 300 on its way; reduce 500; back 1000 and 300; dequantize 250.
  EXPECT_DOUBLE_EQ(walked_ns(plan_of("ring", 2, 2 * kChunk)), 3600);
}

TEST(CostWalk, Bursts_AheadOfTheirLink) {
  const Plan plan = plan_of("ring", 2, 2 * kChunk);
  const auto with_burst = [&](double messages) {
    CostConstants constants = machine();
    constants.burst_bytes = messages * 1000 / constants.byte_ns;
    return walk_moves(plan, codec(2), constants, 0).finish_ns;
  };
  // Half of each message is there 500 earlier: 250, 500 and 300, reduce 500, the same back, 250.
  EXPECT_DOUBLE_EQ(with_burst(0.5), 2600);
  // All of it: but the next call finds the link behind by two messages.
  EXPECT_DOUBLE_EQ(with_burst(2), 2000);
}

TEST(CostWalk, Messages_ProcessorTimeAtBothEnds) {
  CostConstants constants{};
  constants.message_ns = 7;
  const CodecCost free_codec{};
  // Ring: n - 1 operands and n - 1 results, each sent and received.
  EXPECT_DOUBLE_EQ(walk_moves(plan_of("ring", 5, 5 * kChunk), free_codec, constants, 0).busy_ns,
                   4 * 4 * 7);
}

TEST(CostWalk, EveryMove_TakesProcessorTime) {
  CostConstants constants{};
  constants.move_ns = 1;
  for (const char* schedule : {"ring", "direct", "butterfly", "tree"}) {
    for (const uint32_t ranks : {2u, 4u, 8u}) {
      const Plan plan = plan_of(schedule, ranks, 3 * ranks * kChunk);
      double moves = 0;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        MoveCursor cursor(plan.schedule, plan.shape, rank);
        for (Move move; cursor.next(&move);) ++moves;
      }
      EXPECT_NEAR(walk_moves(plan, CodecCost{}, constants, 0).busy_ns, moves / ranks, 1e-9)
          << schedule << ' ' << ranks;
    }
  }
}

struct Tolerance {
  const char* schedule;
  double least, most;  ///< of the walk's time over the simulated one
};

TEST(CostWalk, AllSchedules_AgreeWithAllRanksSimulated) {
  // Equal where all ranks do the same. A tree's deeper levels and the ranks beside a folded pair
  // are estimates.
  const Tolerance tolerances[] = {{"ring", 0.999, 1.001},
                                  {"direct", 0.97, 1.03},
                                  {"butterfly", 0.7, 1.05},
                                  {"tree", 0.85, 1.1}};
  for (const Tolerance& one : tolerances) {
    for (uint32_t ranks : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 12u, 16u, 32u, 33u}) {
      for (const bool travels : {false, true}) {
        for (uint64_t chunks : {1u, 2u, 16u}) {
          const Plan plan = plan_of(one.schedule, ranks, chunks * ranks * kChunk, kChunk, travels);
          const double ratio = walked_ns(plan) / timeline_ns(plan);
          EXPECT_GE(ratio, one.least) << one.schedule << ' ' << ranks << ' ' << chunks << travels;
          EXPECT_LE(ratio, one.most) << one.schedule << ' ' << ranks << ' ' << chunks << travels;
        }
      }
    }
  }
}

// With links that are all alike: the simulation has one kind.
TEST(CostWalk, Hierarchy_AgreesWithAllRanksSimulated) {
  for (const std::vector<uint32_t>& sizes :
       std::vector<std::vector<uint32_t>>{{2, 2}, {4, 4}, {2, 2, 2}, {3, 3, 3, 3}, {8, 8}}) {
    const Nodes nodes = nodes_of(sizes);
    for (uint64_t chunks : {1u, 2u, 16u}) {
      const Plan plan = hierarchy_of(nodes, chunks);
      EXPECT_NEAR(walked_ns(plan) / timeline_ns(plan), 1, 0.08)
          << sizes.size() << " nodes of " << sizes[0] << ", " << chunks;
    }
  }
}

TEST(CostWalk, EveryRankOfEqualNodes_SameTime) {
  for (const std::vector<uint32_t>& sizes :
       std::vector<std::vector<uint32_t>>{{2, 2}, {5, 5, 5}, {8, 8, 8, 8}}) {
    const Nodes nodes = nodes_of(sizes);
    const Plan plan = hierarchy_of(nodes, 3);
    CostConstants constants = machine();
    constants.node_byte_ns = constants.byte_ns / 10;
    const auto of = [&](uint32_t rank) {
      return walk_moves(plan, codec(plan.shape.ranks), constants, rank, &nodes).finish_ns;
    };
    for (uint32_t rank = 1; rank < plan.shape.ranks; ++rank) EXPECT_DOUBLE_EQ(of(rank), of(0));
  }
}

TEST(CostWalk, RingOfTwoNodes_ByHand) {
  // Ranks 1 and 3 send to the other node. Between them each message takes 1000 and 300.
  const Nodes nodes = nodes_of({2, 2});
  CostConstants constants = machine();
  const CodecCost free_codec{};
  const Plan plan = plan_of("ring", 4, 4 * kChunk);
  EXPECT_DOUBLE_EQ(walk_moves(plan, free_codec, constants, 0, &nodes).finish_ns, 6 * 1300);
  constants.byte_ns = 0;
  EXPECT_DOUBLE_EQ(walk_moves(plan, free_codec, constants, 0, &nodes).finish_ns, 6 * 300);
}

TEST(CostWalk, EveryRankOfARingOrDirect_SameTime) {
  for (const char* schedule : {"ring", "direct", "butterfly"}) {
    for (uint32_t ranks = 1; ranks <= 64; ++ranks) {
      const bool is_butterfly = std::string(schedule) == "butterfly";
      if (is_butterfly && (ranks & (ranks - 1)) != 0)
        continue;  // classes of ranks: walked together
      const Plan plan = plan_of(schedule, ranks, 2 * ranks * kChunk);
      const double of_rank_0 = walked_ns(plan);
      for (uint32_t rank = 1; rank < ranks; ++rank) {
        EXPECT_DOUBLE_EQ(walked_ns(plan, rank), of_rank_0)
            << schedule << ' ' << rank << '/' << ranks;
      }
    }
  }
}

/** Processor time of all ranks, from the simulation. */
double busy_in_timeline_ns(const Plan& plan) {
  double busy = 0;
  Machine idealised{.quantize = 0.25, .reduce = 0.5, .dequantize = 0.25};
  for (const TimedMove& timed : timeline(*plan.schedule, plan.shape, idealised)) {
    const MoveKind kind = timed.move.kind;
    const bool waits = kind == MoveKind::send || kind == MoveKind::receive_operand ||
                       kind == MoveKind::receive_result;
    busy += waits ? 0 : timed.end - timed.start;
  }
  return 1000 * busy / plan.shape.ranks;
}

TEST(CostWalk, AverageProcessorTime_ThatOfAllRanks) {
  for (const char* schedule : {"ring", "tree", "butterfly", "direct"}) {
    for (uint32_t ranks = 1; ranks <= 64; ++ranks) {
      const Plan plan = plan_of(schedule, ranks, 2 * ranks * kChunk);
      const double busy = walk_moves(plan, codec(ranks), machine(), 0).busy_ns;
      EXPECT_NEAR(busy, busy_in_timeline_ns(plan), 1e-9 * busy) << schedule << ' ' << ranks;
    }
  }
}

}  // namespace
}  // namespace gq
