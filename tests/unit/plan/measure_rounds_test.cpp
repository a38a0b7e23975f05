// Rounds of measuring against a machine that does what the cost model says: how long they take in
// all, and what follows from their times. No clock runs.
#include "src/plan/cost/measure_rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "src/plan/choose.h"

namespace gq {
namespace {

/** What the rounds take on it. */
struct Machine {
  double latency_ns, message_ns, byte_ns, barrier_ns;
  double node_latency_ns = 0, node_byte_ns = 0;
  double stage_ns = 1;  ///< for a value, in every stage

  double message_of(const MeasureRound& round, uint32_t senders) const {
    const double latency = round.inside_node ? node_latency_ns : latency_ns;
    const double bytes_ns = static_cast<double>(round.size_bytes) *
                            (round.inside_node ? node_byte_ns : byte_ns * senders);
    const double many_ns = std::max(2 * message_ns, bytes_ns);
    return round.window == 1 ? latency + many_ns : many_ns;
  }
};

struct Measured {
  CostConstants constants;
  double elapsed_ns = 0;
  int rounds = 0;
  std::vector<size_t> sizes;  // of messages, in order
};

Measured measure(const MeasuredGroup& group, const Machine& machine) {
  Measured measured;
  MeasureRounds rounds;
  rounds.begin(group);
  for (; rounds.current().kind != RoundKind::done; ++measured.rounds) {
    const MeasureRound round = rounds.current();
    RoundNumbers numbers;
    double taken_ns = machine.barrier_ns;
    switch (round.kind) {
      case RoundKind::machine:
        numbers.of[0] = -6;
        numbers.of[1] = -1e6f;
        break;
      case RoundKind::stages:
        taken_ns += 5 * 5 * 16384 * machine.stage_ns;
        std::fill_n(numbers.of, kCostStageCount, static_cast<float>(machine.stage_ns));
        break;
      case RoundKind::barrier:
        numbers.of[0] = static_cast<float>(machine.barrier_ns);
        break;
      case RoundKind::link:
      case RoundKind::sum:
        measured.sizes.push_back(round.size_bytes);
        numbers.of[0] = static_cast<float>(machine.message_of(round, group.far_senders));
        taken_ns += numbers.of[0] * round.count;
        break;
      default:
        break;
    }
    measured.elapsed_ns += taken_ns;
    rounds.agree(numbers, measured.elapsed_ns);
    if (measured.rounds > 1000) break;
  }
  measured.constants = rounds.constants();
  return measured;
}

TEST(MeasureRounds, AnySpeed_WithinTheBudget) {
  for (const double latency_ns : {100.0, 2e4, 1e6, 1e7}) {
    for (const double byte_ns : {0.001, 0.8, 80.0, 1e4, 1e5}) {
      for (const double barrier_ns : {500.0, 1e5, 2e6}) {
        for (const double stage_ns : {0.05, 5.0, 100.0}) {
          Machine machine{latency_ns, latency_ns / 10, byte_ns, barrier_ns, latency_ns, byte_ns};
          machine.stage_ns = stage_ns;
          for (const bool near : {false, true}) {
            const Measured measured = measure({8, near ? 4u : 1u, near, false, near}, machine);
            // Each kind of link has one round of 4 short messages whose time nothing foretells.
            const double unforeseen_ns =
                (near ? 3 : 1) *
                (4 * (latency_ns + std::max(latency_ns / 5, 256 * byte_ns)) + barrier_ns);
            EXPECT_LE(measured.elapsed_ns, kMeasureBudgetNs + unforeseen_ns)
                << latency_ns << ' ' << byte_ns << ' ' << barrier_ns << ' ' << stage_ns;
            EXPECT_LT(measured.rounds, 100);
          }
        }
      }
    }
  }
}

/** Within the digits that are kept, and what a float32 loses. */
void expect_near(double measured, double real) { EXPECT_NEAR(measured, real, 1e-3 * real); }

TEST(MeasureRounds, LinkOfTheModel_ItsConstants) {
  const Machine machine{20000, 1500, 0.8, 30000};
  const CostConstants constants = measure({4, 1, false, false, false}, machine).constants;
  expect_near(constants.latency_ns, 20000);
  expect_near(constants.message_ns, 1500);
  expect_near(constants.byte_ns, 0.8);
  expect_near(constants.node_byte_ns, 0.8);  // all links are alike
  expect_near(constants.call_ns + 4 * constants.header_ns, 30000);
  EXPECT_EQ(constants.cpus, 6);
  EXPECT_EQ(constants.cache_bytes, 1e6);
  EXPECT_FALSE(knows_native(constants));
}

TEST(MeasureRounds, RanksOfANodeSendAtOnce_TheirLinkIsShared) {
  const Machine machine{20000, 1500, 0.8, 30000, 2000, 0.1};
  const CostConstants constants = measure({8, 4, true, false, false}, machine).constants;
  expect_near(constants.byte_ns, 0.8);
  expect_near(constants.node_latency_ns, 2000);
  expect_near(constants.node_byte_ns, 0.1);
}

// In one memory nothing travels while a rank works: messages take what they take beside the words.
TEST(MeasureRounds, WordsReadInPlace_WithoutTheMessages) {
  const Machine machine{500, 100, 0.05, 2000};
  const CostConstants constants = measure({2, 1, false, true, false}, machine).constants;
  expect_near(constants.byte_ns, (0.05 * 65536 - 200) / (65536 - 64));
}

TEST(MeasureRounds, TransportAdds_ItsConstants) {
  const CostConstants constants =
      measure({8, 1, false, false, true}, {20000, 1500, 0.8, 30000}).constants;
  ASSERT_TRUE(knows_native(constants));
  EXPECT_GT(constants.native_step_ns, 0);
}

TEST(MeasureRounds, OneRank_NoMessages) {
  const Measured measured = measure({1, 1, false, true, true}, {100, 100, 1, 100});
  EXPECT_TRUE(measured.sizes.empty());
  EXPECT_EQ(measured.constants.byte_ns, built_in_costs().byte_ns);
  expect_near(measured.constants.stage(CostRow::linear8, CostStage::quantize).cached, 1);
}

// A link on which the longest message would take the whole time is measured by shorter ones.
TEST(MeasureRounds, VerySlowLink_KnownAsSuch) {
  const Measured measured = measure({2, 1, false, false, false}, {1e5, 1000, 1e5, 1e5});
  EXPECT_LT(*std::max_element(measured.sizes.begin(), measured.sizes.end()), 65536u);
  EXPECT_GE(measured.constants.byte_ns, 0.9e5);
}

TEST(MeasureRounds, SlowStages_TheRestIsBuiltIn) {
  Machine machine{20000, 1500, 0.8, 30000};
  machine.stage_ns = 100;  // 41 ms for a row
  const CostConstants constants = measure({2, 1, false, false, false}, machine).constants;
  EXPECT_EQ(constants.stage(CostRow::linear8, CostStage::norm).cached, 100);
  EXPECT_EQ(constants.stage(CostRow::averaged, CostStage::reduce).cached,
            built_in_costs().stage(CostRow::averaged, CostStage::reduce).cached);
}

/** What AUTO takes of a call over such links. */
Choice choice_of(double byte_ns, uint64_t value_count) {
  Machine machine{20000, 1500, byte_ns, 30000};
  machine.stage_ns = 0.3;
  const CostConstants constants = measure({2, 1, false, false, false}, machine).constants;
  CostQuestion question{};
  question.format.block = 128;
  question.ranks = 2;
  question.value_count = value_count;
  question.chunk_value_count = 56 << 10;
  Choice choice{};
  double time_ns = 0;
  EXPECT_TRUE(choose(question, constants, true, &choice, &time_ns).ok());
  return choice;
}

TEST(MeasureRounds, FastAndSlowLinks_FloatsAndCodes) {
  EXPECT_EQ(choice_of(0.02, 1 << 20).sent_as, SentAs::float32);
  EXPECT_EQ(choice_of(8, 1 << 20).sent_as, SentAs::codes);
  EXPECT_EQ(choice_of(8, 16).sent_as, SentAs::float32) << "a short call pays for its messages";
}

}  // namespace
}  // namespace gq
