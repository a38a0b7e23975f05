// Predictions as a whole: long calls are extrapolated to what a walk of every chunk gives, terms
// grow with what they stand for, and groups of any size are costed.
#include "src/plan/cost/cost_model.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "src/plan/choose.h"
#include "src/plan/cost/cost_walk.h"
#include "src/schedule/nodes.h"
#include "tests/support/succeeds.h"

namespace gq {
namespace {

constexpr int32_t kSchedules[] = {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_TREE,
                                  GQSGD_SCHEDULE_BUTTERFLY, GQSGD_SCHEDULE_DIRECT};

CostQuestion question_of(int32_t schedule_id, uint32_t ranks, uint64_t value_count) {
  CostQuestion question{};
  question.format.combine = Combine::average;  // goes with any number of ranks
  question.schedule_id = schedule_id;
  question.ranks = ranks;
  question.value_count = value_count;
  question.chunk_value_count = 1024;
  question.reads_in_place = true;
  question.dtype = GQSGD_FLOAT32;
  return question;
}

/** The same on nodes of so many ranks each. */
CostQuestion question_on(const Nodes& nodes, int32_t schedule_id, uint64_t value_count) {
  uint32_t ranks = 0;
  for (uint32_t node = 0; node < nodes.count(); ++node) ranks += nodes.size_of(node);
  CostQuestion question = question_of(schedule_id, ranks, value_count);
  question.nodes = &nodes;
  return question;
}

Nodes nodes_of(const std::vector<uint32_t>& sizes) {
  std::vector<uint32_t> ids;
  for (uint32_t node = 0; node < sizes.size(); ++node) ids.insert(ids.end(), sizes[node], node);
  return Nodes(ids);
}

double predicted_ns(const CostQuestion& question, const CostConstants& constants) {
  double time_ns = -1;
  EXPECT_TRUE(test::succeeds(predict_time(question, constants, &time_ns)));
  return time_ns;
}

/** The same without extrapolation. */
double walked_ns(const CostQuestion& question, const CostConstants& constants) {
  Plan plan;
  const PlanRequest request{
      &question.format,     question.schedule_id,       question.ranks,
      question.value_count, question.chunk_value_count, question.reads_in_place};
  EXPECT_TRUE(make_plan(request, &plan).ok());
  const CodecCost codec = codec_cost(constants, plan.coding, 1);
  return constants.call_ns + question.ranks * constants.header_ns +
         codec.of(CostStage::norm, question.value_count) +
         walk_moves(plan, codec, constants, 0).finish_ns;
}

TEST(CostModel, LongCalls_TimeOfAWalkOfEveryChunk) {
  CostConstants constants = built_in_costs();
  constants.cache_bytes = 1e15;
  for (const double byte_ns : {0.0, 0.2, 1.0, 8.0}) {
    constants.byte_ns = byte_ns;
    for (const int32_t schedule_id : kSchedules) {
      for (uint32_t ranks : {1u, 2u, 3u, 4u, 7u, 8u, 16u, 33u, 64u}) {
        const uint64_t chunks = schedule_id == GQSGD_SCHEDULE_TREE ? 1900 : 700 * ranks;
        CostQuestion question = question_of(schedule_id, ranks, chunks * 1024 + 32 * ranks);
        question.reads_in_place = byte_ns < 0.5;
        if (schedule_id == GQSGD_SCHEDULE_BUTTERFLY && (ranks & (ranks - 1)) != 0) continue;
        const double whole = walked_ns(question, constants);
        EXPECT_NEAR(predicted_ns(question, constants) / whole, 1, 1e-6)
            << "schedule " << schedule_id << ", " << ranks << " ranks, " << byte_ns << " ns/byte";
      }
    }
  }
}

TEST(CostModel, LongCallsOnNodes_ContinueAsTheyBegan) {
  CostConstants constants = built_in_costs();
  constants.cache_bytes = 1e15;
  for (const std::vector<uint32_t>& sizes :
       std::vector<std::vector<uint32_t>>{{2, 2}, {1, 3}, {2, 2, 2}, {4, 4, 4, 4}}) {
    const Nodes nodes = nodes_of(sizes);
    for (const int32_t schedule_id : {GQSGD_SCHEDULE_HIERARCHICAL, GQSGD_SCHEDULE_DIRECT}) {
      // Chunks of a part: what is walked, and several times as many.
      const auto of = [&](uint64_t chunks) {
        const uint64_t values = uint64_t{nodes.count()} * nodes.part_count() * chunks * 1024;
        return predicted_ns(question_on(nodes, schedule_id, values), constants);
      };
      const double per_chunk = (of(240) - of(180)) / 60;
      EXPECT_NEAR((of(1200) - of(240)) / 960 / per_chunk, 1, 1e-3)
          << sizes.size() << " nodes, schedule " << schedule_id;
    }
  }
}

// Links between nodes are the nodes': in direct each rank sends to every other one over them, in a
// hierarchy a node sends what one rank would.
TEST(CostModel, LongCallOnNodes_BandwidthOfTheirLinks) {
  CostConstants constants = built_in_costs();
  constants.byte_ns = 100;
  constants.node_byte_ns = 0;
  const Nodes nodes = nodes_of({4, 4, 4});
  const double values = 48 << 20;
  const auto ratio = [&](int32_t schedule_id, double bytes) {
    return predicted_ns(question_on(nodes, schedule_id, 48 << 20), constants) /
           (bytes * constants.byte_ns);
  };
  EXPECT_NEAR(ratio(GQSGD_SCHEDULE_HIERARCHICAL, 2.0 * 2 / 3 * values), 1, 0.01);
  EXPECT_NEAR(ratio(GQSGD_SCHEDULE_DIRECT, 4 * 2.0 * 8 / 12 * values), 1, 0.01);
  EXPECT_NEAR(ratio(GQSGD_SCHEDULE_RING, 2.0 * 11 / 12 * values), 1, 0.01);
}

TEST(CostModel, LinksInsideNodes_MakeCallsOnNodesLonger) {
  const Nodes nodes = nodes_of({3, 3});
  const CostQuestion question = question_on(nodes, GQSGD_SCHEDULE_HIERARCHICAL, 100000);
  const double before = predicted_ns(question, built_in_costs());
  for (double CostConstants::*const field :
       {&CostConstants::node_latency_ns, &CostConstants::node_byte_ns, &CostConstants::latency_ns,
        &CostConstants::byte_ns}) {
    CostConstants dearer = built_in_costs();
    dearer.*field *= 1000;  // so that it is not hidden behind other links
    EXPECT_GT(predicted_ns(question, dearer), before);
  }
}

TEST(CostModel, NodesWithoutAHierarchy_ChangeNothing) {
  for (const std::vector<uint32_t>& sizes : std::vector<std::vector<uint32_t>>{{5}, {1, 1, 1, 1}}) {
    const Nodes nodes = nodes_of(sizes);
    const CostQuestion direct = question_on(nodes, GQSGD_SCHEDULE_DIRECT, 100000);
    CostQuestion unknown = direct;
    unknown.nodes = nullptr;
    const CostQuestion hierarchical = question_on(nodes, GQSGD_SCHEDULE_HIERARCHICAL, 100000);
    EXPECT_EQ(predicted_ns(direct, built_in_costs()), predicted_ns(unknown, built_in_costs()));
    EXPECT_EQ(predicted_ns(hierarchical, built_in_costs()),
              predicted_ns(unknown, built_in_costs()));
  }
}

TEST(CostModel, EachConstant_MakesCallsLonger) {
  const CostConstants base = built_in_costs();
  double CostConstants::*const fields[] = {&CostConstants::latency_ns, &CostConstants::byte_ns,
                                           &CostConstants::message_ns, &CostConstants::move_ns,
                                           &CostConstants::call_ns,    &CostConstants::header_ns};
  for (const int32_t schedule_id : kSchedules) {
    const CostQuestion question = question_of(schedule_id, 6, 100000);
    const double before = predicted_ns(question, base);
    for (double CostConstants::*const field : fields) {
      CostConstants dearer = base;
      dearer.*field *= 10;
      EXPECT_GT(predicted_ns(question, dearer), before) << schedule_id;
    }
  }
}

CostQuestion adaptive_question(uint8_t mean_half_bits) {
  CostQuestion question = question_of(GQSGD_SCHEDULE_DIRECT, 4, 1 << 20);
  question.format.combine = Combine::exact;
  question.format.block = kAdaptiveBlock;
  question.format.rounding = Rounding::correlated;
  question.format.rescale = true;
  question.format.mean_half_bits = mean_half_bits;
  return question;
}

TEST(CostModel, AdaptiveWidths_RowsOfTheirOwn) {
  const CostQuestion question = adaptive_question(2 * kCostMeanBits);
  CostConstants others = built_in_costs();
  for (const CostRow row : {CostRow::linear8, CostRow::linear4, CostRow::planes, CostRow::blocks,
                            CostRow::correlated, CostRow::rescaled}) {
    for (StageCost& cost : others.stages[static_cast<size_t>(row)]) cost = {9, 9, 9000};
  }
  EXPECT_EQ(predicted_ns(question, others), predicted_ns(question, built_in_costs()));
  CostConstants slower = built_in_costs();
  for (StageCost& cost : slower.stages[static_cast<size_t>(CostRow::adaptive)]) cost.cached *= 2;
  EXPECT_GT(predicted_ns(question, slower), predicted_ns(question, built_in_costs()));
}

TEST(CostModel, RiceCodes_TheirRowAlone_BytesOfTheirMean) {
  CostQuestion question = question_of(GQSGD_SCHEDULE_DIRECT, 4, 1 << 20);
  question.format.levels = Levels::rice;
  question.format.combine = Combine::exact;
  question.format.rounding = Rounding::correlated;
  question.format.mean_half_bits = 2 * kCostMeanBits;
  CostConstants others = built_in_costs();
  for (size_t row = 0; row < kCostRowCount; ++row) {
    if (row == static_cast<size_t>(CostRow::rice)) continue;
    for (StageCost& cost : others.stages[row]) cost = {9, 9, 9000};
  }
  EXPECT_EQ(predicted_ns(question, others), predicted_ns(question, built_in_costs()));
  CostConstants bytes_alone = built_in_costs();
  bytes_alone.byte_ns = 1e6;
  const double four_bits_ns = predicted_ns(question, bytes_alone);
  EXPECT_NEAR(four_bits_ns / predicted_ns(adaptive_question(8), bytes_alone), 1, 0.01);
  question.format.mean_half_bits = 16;
  EXPECT_NEAR(predicted_ns(question, bytes_alone) / four_bits_ns, 8.19 / 4.19, 0.02);
}

// Stages alone: bytes take no time.
TEST(CostModel, BitsOfAdaptiveWidths_PlanesTimesTheirDistanceFromTheRowsMean) {
  CostConstants constants = built_in_costs();
  constants.byte_ns = 0;
  const auto time_ns = [&](uint8_t mean_half_bits) {
    return predicted_ns(adaptive_question(mean_half_bits), constants);
  };
  const double of_row_ns = time_ns(8);
  EXPECT_GT(time_ns(9), of_row_ns);
  EXPECT_NEAR(time_ns(16) - of_row_ns, 4 * (of_row_ns - time_ns(6)), 0.01 * of_row_ns);
  // Never below nothing, whatever was measured.
  for (StageCost& cost : constants.stages[static_cast<size_t>(CostRow::planes)]) cost = {9, 9, 9};
  EXPECT_GT(time_ns(5), 0);
}

TEST(CostModel, RanksShareProcessors_TakeLonger) {
  CostConstants shared = built_in_costs();
  shared.byte_ns = shared.latency_ns = 0;
  const CostQuestion question = question_of(GQSGD_SCHEDULE_DIRECT, 8, 1 << 20);
  const double alone = predicted_ns(question, shared);
  shared.cpus = 2;
  EXPECT_GT(predicted_ns(question, shared), 2 * alone);
}

TEST(CostModel, LongCall_BandwidthOfItsLinks) {
  // 2 (n - 1) / n bytes for each value leave every rank of a ring or of direct.
  CostConstants constants = built_in_costs();
  constants.byte_ns = 100;
  for (const int32_t schedule_id : {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_DIRECT}) {
    const CostQuestion question = question_of(schedule_id, 8, 64 << 20);
    const double link_ns = 2.0 * 7 / 8 * (64 << 20) * constants.byte_ns;
    for (const double burst_bytes : {0.0, 1e5}) {
      constants.burst_bytes = burst_bytes;
      EXPECT_NEAR(predicted_ns(question, constants) / link_ns, 1, 0.01) << schedule_id;
    }
  }
}

TEST(CostModel, WaitingRanks_LeaveMemoryToTheOthers) {
  // The root of a tree works while the other rank waits, in a ring both work.
  CostConstants constants{};
  constants.stages[static_cast<size_t>(CostRow::none)][static_cast<size_t>(CostStage::reduce)] = {
      1, 1, 0};
  constants.cpus = 2;
  CostQuestion ring = question_of(GQSGD_SCHEDULE_RING, 2, 64 << 20);
  ring.format = uncompressed(ring.format);
  CostQuestion tree = ring;
  tree.schedule_id = GQSGD_SCHEDULE_TREE;
  constants.cache_bytes = 1;
  EXPECT_NEAR(predicted_ns(tree, constants) / predicted_ns(ring, constants), 1, 0.01);
  constants.cache_bytes = 1e12;
  EXPECT_NEAR(predicted_ns(tree, constants) / predicted_ns(ring, constants), 2, 0.01);
}

TEST(CostModel, HundredThousandRanks_Costed) {
  for (const int32_t schedule_id : kSchedules) {
    CostQuestion question = question_of(schedule_id, 100000, 100 << 20);
    question.chunk_value_count = 65536;
    const double time_ns = predicted_ns(question, built_in_costs());
    // No less than the bytes of a rank, and no more than 100,000 rings of latencies.
    EXPECT_GT(time_ns, 2.0 * (100 << 20) * built_in_costs().byte_ns * 0.99) << schedule_id;
    EXPECT_LT(time_ns, 1e11) << schedule_id;
  }
}

TEST(CostModel, ScheduleSparse_Unsupported) {
  double time_ns = 0;
  CostQuestion question = question_of(GQSGD_SCHEDULE_SPARSE, 4, 1000);
  EXPECT_EQ(predict_time(question, built_in_costs(), &time_ns).code(), GQSGD_UNSUPPORTED);
}

TEST(CostModel, SumsOfATransport_TimeOfTheConstants) {
  double time_ns = 0;
  CostQuestion question = question_of(GQSGD_SCHEDULE_NATIVE, 4, 1000);
  question.format.levels = Levels::none;
  question.format.bits = question.format.bits_down = 32;
  const Status refused = predict_time(question, built_in_costs(), &time_ns);
  EXPECT_EQ(refused.code(), GQSGD_UNSUPPORTED);
  EXPECT_NE(std::string(refused.sentence()).find("gqsgd-calibrate-mpi"), std::string::npos);
  CostConstants constants = built_in_costs();
  constants.native_step_ns = 5000;
  constants.native_byte_ns = 2;
  CostConstants free = constants;
  free.native_step_ns = 0;
  free.native_byte_ns = 1e-9;
  const double steps_ns = 4 * 5000.0, bytes_ns = 2 * 3.0 / 4 * 4000 * 2;
  EXPECT_NEAR(predicted_ns(question, constants) - predicted_ns(question, free), steps_ns + bytes_ns,
              1e-3);
  CostConstants bursts = constants;
  bursts.burst_bytes = 1000;
  EXPECT_NEAR(predicted_ns(question, constants) - predicted_ns(question, bursts),
              1000 * constants.byte_ns, 1e-3);
}

TEST(CostModel, StepsOfASchedule_TimeOfTheirOwnConstants) {
  CostConstants constants = built_in_costs();
  const std::pair<int32_t, double CostConstants::*> fields[] = {
      {GQSGD_SCHEDULE_DIRECT, &CostConstants::direct_step_ns},
      {GQSGD_SCHEDULE_TREE, &CostConstants::tree_step_ns},
      {GQSGD_SCHEDULE_BUTTERFLY, &CostConstants::butterfly_step_ns},
      {GQSGD_SCHEDULE_RING, &CostConstants::ring_step_ns}};
  const double steps[] = {2, 2 * 3, 2 * 3, 2 * 5};  // of six ranks
  for (size_t k = 0; k < std::size(fields); ++k) {
    CostConstants slower = constants;
    slower.*fields[k].second = 1000;
    for (const auto& [schedule_id, field] : fields) {
      const CostQuestion question = question_of(schedule_id, 6, 1000);
      const double more_ns = predicted_ns(question, slower) - predicted_ns(question, constants);
      EXPECT_NEAR(more_ns, schedule_id == fields[k].first ? 1000 * steps[k] : 0, 1e-3);
    }
  }
}

TEST(CostModel, NoValues_TimeOfACallAndItsControlMessages) {
  const CostConstants constants = built_in_costs();
  for (const int32_t schedule_id : kSchedules) {
    CostQuestion question = question_of(schedule_id, 1, 0);
    question.format.levels = Levels::none;
    EXPECT_NEAR(predicted_ns(question, constants), constants.call_ns + constants.header_ns, 1e-6);
  }
}

}  // namespace
}  // namespace gq
