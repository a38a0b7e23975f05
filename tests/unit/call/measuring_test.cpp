// Ranks that measure costs, one after the other on one thread, by clocks of the test: what they
// agree on, and what becomes of them where one fails.
#include "src/call/measuring.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "src/api/communicator/costs_file.h"
#include "src/api/quantizer/quantizer_spec.h"
#include "src/call/auto_schedule.h"
#include "src/call/progress_loop.h"
#include "src/transport/shared_memory/local.h"
#include "tests/support/succeeds.h"
#include "tests/unit/execute/copying_transport.h"

namespace gq {
namespace {

/** A clock that shows `step_ns` more whenever it is read. */
struct StepClock {
  uint64_t step_ns = 1000;
  uint64_t now_ns = 0;

  static uint64_t read(void* clock) {
    auto* self = static_cast<StepClock*>(clock);
    return self->now_ns += self->step_ns;
  }
};

enum class Memory { shared, copied };

class Group {
 public:
  Group(uint32_t ranks, Memory memory, const std::vector<uint32_t>& node_ids = {})
      : endpoints(ranks), calls(ranks), loops(ranks), clocks(ranks), values(ranks) {
    std::vector<std::unique_ptr<HostTransport>> transports(ranks);
    if (memory == Memory::shared) {
      EXPECT_TRUE(test::succeeds(create_local(ranks, transports.data())));
    }
    AutoOptions options;
    options.measures = true;
    const char* refused = nullptr;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      if (memory == Memory::copied) {
        transports[rank] = std::make_unique<CopyingTransport>(&wire_, rank, ranks);
      }
      Endpoint& endpoint = endpoints[rank];
      endpoint.set_transport(std::move(transports[rank]));
      endpoint.nodes = Nodes(node_ids.empty() ? std::vector<uint32_t>(ranks) : node_ids);
      endpoint.stages = cpu_stages(&refused);
      endpoint.chunk_value_count = 64;
      endpoint.timeout_ms = 20000;
      endpoint.choice.set(options);
      endpoint.clock = {StepClock::read, &clocks[rank]};
      Call& call = calls[rank];
      EXPECT_TRUE(test::succeeds(parse_quantizer("blocks-8", &call.format)));
      values[rank].assign(100, static_cast<float>(rank));
      call.send = call.recv = values[rank].data();
      call.value_count = values[rank].size();
    }
  }

  void begin() {
    for (size_t rank = 0; rank < loops.size(); ++rank) {
      loops[rank].begin(endpoints[rank], calls[rank], Status());
    }
  }

  /** Advances all ranks until all calls have ended, or `turns` times. */
  bool advance(int turns = 1000000) {
    for (int turn = 0; turn < turns; ++turn) {
      bool all = true;
      for (ProgressLoop& loop : loops) all &= loop.advance();
      if (all) return true;
    }
    return false;
  }

  const CostConstants& costs(size_t rank) const {
    const CostConstants* costs = endpoints[rank].choice.seen_costs();
    static const CostConstants none{};
    EXPECT_NE(costs, nullptr);
    return costs == nullptr ? none : *costs;
  }

  std::vector<Endpoint> endpoints;
  std::vector<Call> calls;
  std::vector<ProgressLoop> loops;
  std::vector<StepClock> clocks;
  std::vector<std::vector<float>> values;

 private:
  Wire wire_;
};

std::string text_of(const CostConstants& constants) {
  std::string text(describe_costs_exactly(constants, nullptr, 0), '\0');
  describe_costs_exactly(constants, text.data(), text.size() + 1);
  return text;
}

class Measured : public testing::TestWithParam<Memory> {};
INSTANTIATE_TEST_SUITE_P(BothMemories, Measured, testing::Values(Memory::shared, Memory::copied));

TEST_P(Measured, UnequalClocks_EqualConstantsOnAllRanks) {
  for (const std::vector<uint32_t>& nodes :
       {std::vector<uint32_t>{0}, {0, 0}, {0, 1, 2}, {0, 0, 1, 1, 1}, {3, 1, 3, 1, 7, 7}}) {
    Group group(static_cast<uint32_t>(nodes.size()), GetParam(), nodes);
    for (size_t rank = 0; rank < nodes.size(); ++rank)
      group.clocks[rank].step_ns = 700 + 311 * rank;
    group.begin();
    ASSERT_TRUE(group.advance());
    for (size_t rank = 0; rank < nodes.size(); ++rank) {
      EXPECT_TRUE(test::succeeds(group.loops[rank].status()));
      EXPECT_EQ(text_of(group.costs(rank)), text_of(group.costs(0))) << rank;
      EXPECT_EQ(group.endpoints[rank].choice.digest(), digest_of(group.costs(0)));
      EXPECT_EQ(group.endpoints[rank].calls, 1u);
    }
    for (const float value : group.values[0]) {
      ASSERT_NEAR(value, (static_cast<float>(nodes.size()) - 1) / 2, 0.1);
    }
  }
}

TEST_P(Measured, OtherNodesOnOneRank_NamedBeforeAnyRound) {
  Group group(4, GetParam(), {0, 0, 1, 1});
  group.endpoints[3].nodes = Nodes({0, 1, 0, 1});
  group.begin();
  ASSERT_TRUE(group.advance());
  for (ProgressLoop& loop : group.loops) {
    EXPECT_EQ(loop.status().code(), GQSGD_MISMATCH);
    EXPECT_NE(std::string(loop.status().sentence()).find("nodes differ: rank 0 and rank 3"),
              std::string::npos)
        << loop.status().sentence();
  }
}

// A run of a stage is one step of the clock, so that its time is known to the last digit.
TEST_P(Measured, OneSlowRank_ItsTimesForAll) {
  for (size_t slow = 0; slow < 3; ++slow) {
    Group group(3, GetParam());
    group.clocks[slow].step_ns = 16384;
    group.begin();
    ASSERT_TRUE(group.advance());
    for (size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(group.costs(rank).stage(CostRow::linear8, CostStage::quantize).cached, 1);
      EXPECT_EQ(group.costs(rank).stage(CostRow::none, CostStage::dequantize).cached, 1);
      EXPECT_EQ(group.costs(rank).stage(CostRow::adaptive, CostStage::sum).cached, 1);
    }
  }
}

TEST_P(Measured, AnyClock_EndsWithinTheBudget) {
  for (const uint64_t step_ns : {10u, 1000u, 100000u, 5000000u}) {
    Group group(2, GetParam());
    group.clocks[1].step_ns = step_ns;
    group.begin();
    ASSERT_TRUE(group.advance());
    for (size_t rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(test::succeeds(group.loops[rank].status())) << step_ns;
      EXPECT_EQ(text_of(group.costs(rank)), text_of(group.costs(0)));
    }
    // A row of stages has 5 times 6 runs at most, between which nothing is decided.
    EXPECT_LE(group.clocks[1].now_ns, kMeasureBudgetNs + 100.0 * static_cast<double>(step_ns));
  }
}

TEST_P(Measured, LaterCalls_MeasureNothing) {
  Group group(2, GetParam());
  group.begin();
  ASSERT_TRUE(group.advance());
  const uint64_t read_ns = group.clocks[0].now_ns;
  const uint64_t sequence = group.endpoints[0].sequence;
  group.begin();
  ASSERT_TRUE(group.advance());
  EXPECT_TRUE(test::succeeds(group.loops[0].status()));
  EXPECT_EQ(group.clocks[0].now_ns, read_ns);
  EXPECT_EQ(group.endpoints[0].sequence, sequence + 1);
}

TEST_P(Measured, NamedSchedule_MeasuresNothing) {
  Group group(2, GetParam());
  for (Call& call : group.calls) call.schedule_id = GQSGD_SCHEDULE_DIRECT;
  group.begin();
  ASSERT_TRUE(group.advance());
  EXPECT_TRUE(test::succeeds(group.loops[0].status()));
  EXPECT_EQ(group.endpoints[0].choice.seen_costs(), nullptr);
}

TEST_P(Measured, ItsMessages_NotCounted) {
  Group measuring(2, GetParam()), given(2, GetParam());
  AutoOptions options;
  measuring.begin();
  ASSERT_TRUE(measuring.advance());
  options.costs = std::make_shared<const CostConstants>(measuring.costs(0));
  for (Endpoint& endpoint : given.endpoints) endpoint.choice.set(options);
  given.begin();
  ASSERT_TRUE(given.advance());
  const TransportCounters counted = measuring.endpoints[0].transport->counters();
  const TransportCounters expected = given.endpoints[0].transport->counters();
  EXPECT_GT(uint64_t{expected.payload_bytes_sent}, 0u);
  EXPECT_EQ(uint64_t{counted.payload_bytes_sent}, uint64_t{expected.payload_bytes_sent});
  EXPECT_EQ(uint64_t{counted.messages_sent}, uint64_t{expected.messages_sent});
}

// The string is what one group has measured and another one is given.
TEST_P(Measured, StringOfTheConstants_SameChoices) {
  Group group(4, GetParam(), {0, 0, 1, 1});
  group.clocks[2].step_ns = 1237;
  group.begin();
  ASSERT_TRUE(group.advance());
  AutoOptions given;
  ASSERT_TRUE(test::succeeds(read_costs(text_of(group.costs(3)), &given)));
  ASSERT_NE(given.costs, nullptr);
  EXPECT_FALSE(given.measures);
  EXPECT_EQ(digest_of(*given.costs), group.endpoints[0].choice.digest());
  EXPECT_EQ(text_of(*given.costs), text_of(group.costs(3)));
  for (uint64_t value_count = 1; value_count < uint64_t{1} << 28; value_count *= 5) {
    CostQuestion question = cost_question(group.endpoints[1], group.calls[1]);
    question.value_count = value_count;
    Choice measured{}, read{};
    double measured_ns = 0, read_ns = 0;
    ASSERT_TRUE(choose(question, group.costs(1), true, &measured, &measured_ns).ok());
    ASSERT_TRUE(choose(question, *given.costs, true, &read, &read_ns).ok());
    EXPECT_EQ(measured.schedule_id, read.schedule_id);
    EXPECT_EQ(measured.sent_as, read.sent_as);
    EXPECT_EQ(measured_ns, read_ns);
  }
}

TEST_P(Measured, OtherRankHasNoCosts_MismatchThatSaysSo) {
  for (const size_t without : {0u, 1u}) {
    Group group(2, GetParam());
    group.endpoints[without].choice.set(AutoOptions());
    group.begin();
    ASSERT_TRUE(group.advance());
    const std::string measures = std::to_string(1 - without), other = std::to_string(without);
    for (ProgressLoop& loop : group.loops) {
      EXPECT_EQ(loop.status().code(), GQSGD_MISMATCH);
      EXPECT_EQ(std::string(loop.status().sentence()),
                "call 1: costs differ: rank " + measures +
                    " measures them first (costs=measure, schedule auto), rank " + other +
                    " makes its allreduce without; every rank must have the same option costs, or "
                    "GQSGD_COSTS, and make the same calls in the same order");
    }
    // Both are usable.
    for (Call& call : group.calls) call.schedule_id = GQSGD_SCHEDULE_DIRECT;
    group.begin();
    ASSERT_TRUE(group.advance());
    for (ProgressLoop& loop : group.loops) EXPECT_TRUE(test::succeeds(loop.status()));
  }
}

TEST_P(Measured, OtherRankRefusesTheCall_RemoteErrorAndMeasuredLater) {
  Group group(2, GetParam());
  group.loops[0].begin(group.endpoints[0], group.calls[0], Status());
  group.loops[1].begin(group.endpoints[1], group.calls[1], fail(GQSGD_INVALID_ARGUMENT, "no"));
  ASSERT_TRUE(group.advance());
  EXPECT_EQ(group.loops[0].status().code(), GQSGD_REMOTE_ERROR);
  EXPECT_EQ(group.loops[1].status().code(), GQSGD_INVALID_ARGUMENT);
  group.begin();
  ASSERT_TRUE(group.advance());
  EXPECT_TRUE(test::succeeds(group.loops[0].status()));
  EXPECT_EQ(text_of(group.costs(0)), text_of(group.costs(1)));
}

/** A group of threads whose rank 1 has stopped after `turns` turns of measuring. */
void stop_rank_1(Group* group, int turns) {
  group->begin();
  ASSERT_FALSE(group->advance(turns));
  ASSERT_EQ(group->endpoints[0].choice.seen_costs(), nullptr);
}

TEST(Measuring, RankStalls_TimeoutThatNamesIt) {
  for (const int turns : {0, 1, 2, 5, 20, 60}) {
    Group group(2, Memory::shared);
    stop_rank_1(&group, turns);
    group.endpoints[0].timeout_ms = 1;
    while (!group.loops[0].advance()) group.loops[0].wait();
    const Status& status = group.loops[0].status();
    EXPECT_EQ(status.code(), GQSGD_TIMEOUT);
    EXPECT_NE(std::string(status.sentence()).find("rank 1"), std::string::npos)
        << status.sentence();
    EXPECT_NE(std::string(status.sentence()).find("measure_costs"), std::string::npos)
        << status.sentence();
    EXPECT_EQ(group.endpoints[0].failure.get().code(), GQSGD_TIMEOUT);
  }
}

TEST(Measuring, RankAborts_TheOthersGetIt) {
  for (const int turns : {1, 5, 20}) {
    Group group(2, Memory::shared);
    stop_rank_1(&group, turns);
    abort_group(group.endpoints[1], "was stopped");
    while (!group.loops[0].advance()) group.loops[0].wait();
    EXPECT_EQ(group.loops[0].status().code(), GQSGD_ABORTED);
    EXPECT_NE(std::string(group.loops[0].status().sentence()).find("rank 1"), std::string::npos);
  }
}

TEST(Measuring, ControlMessageOfAnotherRound_ProtocolOfItsRank) {
  Group group(2, Memory::shared);
  group.begin();
  ASSERT_FALSE(group.advance(1));
  ControlMessage control;
  control.words[kControlMagicVersion] = kControlMagic | kWireVersion;
  control.words[kControlSequence] = static_cast<uint32_t>(group.endpoints[0].sequence);
  control.words[kControlOperation] = 1234;
  const uint64_t sequence = group.endpoints[0].sequence;
  ASSERT_TRUE(test::succeeds(group.endpoints[1].host->send_control(sequence, control)));
  while (!group.loops[0].advance()) group.loops[0].wait();
  EXPECT_EQ(group.loops[0].status().code(), GQSGD_PROTOCOL);
  EXPECT_NE(std::string(group.loops[0].status().sentence())
                .find("the control message of rank 1 has 0x000004d2"),
            std::string::npos)
      << group.loops[0].status().sentence();
}

}  // namespace
}  // namespace gq
