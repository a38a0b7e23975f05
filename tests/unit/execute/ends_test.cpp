// How calls end when something happens at the worst moment: what a status says of the output, and
// whom a timeout blames.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/api/quantizer/quantizer_spec.h"
#include "src/call/progress_loop.h"
#include "src/transport/shared_memory/local.h"
#include "tests/support/succeeds.h"
#include "tests/unit/execute/wrapped_transport.h"

namespace gq {
namespace {

constexpr size_t kValues = 3000;

/** Rank 0's: what is to happen when the last words have left, and in its control message. */
struct Spoilt {
  std::function<Status()> at_flush;
  // Bits that are set in every control message.
  uint32_t reserved[kControlWordCount - kControlDigestLow] = {};
};

class SpoiltTransport final : public WrappedTransport {
 public:
  SpoiltTransport(std::unique_ptr<HostTransport> inner, const Spoilt* spoilt)
      : WrappedTransport(std::move(inner)), spoilt_(*spoilt) {}

  Status flushed(bool* done) override {
    if (spoilt_.at_flush) GQ_TRY(spoilt_.at_flush());
    return WrappedTransport::flushed(done);
  }
  Status send_control(uint64_t sequence, const ControlMessage& message) override {
    ControlMessage changed = message;
    for (uint32_t k = 0; k < std::size(spoilt_.reserved); ++k) {
      changed.words[kControlDigestLow + k] |= spoilt_.reserved[k];
    }
    return WrappedTransport::send_control(sequence, changed);
  }

 private:
  const Spoilt& spoilt_;
};

/** Ranks on this thread, which advances one after the other. */
class Ranks {
 public:
  explicit Ranks(uint32_t ranks, const char* quantizer = "paper-gl8",
                 int32_t schedule = GQSGD_SCHEDULE_DIRECT)
      : endpoints(ranks), calls(ranks), drives(ranks), values(ranks) {
    std::vector<std::unique_ptr<HostTransport>> transports(ranks);
    EXPECT_TRUE(test::succeeds(create_local(ranks, transports.data())));
    transports[0] = std::make_unique<SpoiltTransport>(std::move(transports[0]), &spoilt);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      endpoints[rank].set_transport(std::move(transports[rank]));
      endpoints[rank].stages = cpu_stages_named("scalar");
      endpoints[rank].chunk_value_count = 1024;
      endpoints[rank].timeout_ms = 20000;
      EXPECT_TRUE(test::succeeds(parse_quantizer(quantizer, &calls[rank].format)));
      // Few values, so that the sparse schedule sends entries.
      values[rank].assign(kValues, 0);
      for (size_t e = 0; e < kValues; e += 100) values[rank][e] = 1 + static_cast<float>(rank);
      calls[rank].send = calls[rank].recv = values[rank].data();
      calls[rank].value_count = kValues;
      calls[rank].schedule_id = schedule;
    }
    given = values;
  }

  void begin_all() {
    for (size_t rank = 0; rank < drives.size(); ++rank) {
      drives[rank].begin(endpoints[rank], calls[rank], Status());
    }
  }
  /** Until rank 0 has ended, and the others cannot go on. */
  void finish() {
    begin_all();
    for (int round = 0; round < 1000; ++round) {
      for (ProgressLoop& loop : drives) loop.advance();
    }
    ASSERT_TRUE(drives[0].has_ended());
  }

  Spoilt spoilt;
  std::vector<Endpoint> endpoints;
  std::vector<Call> calls;
  std::vector<ProgressLoop> drives;
  std::vector<std::vector<float>> values, given;
};

constexpr int32_t kSchedules[] = {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_TREE,
                                  GQSGD_SCHEDULE_BUTTERFLY, GQSGD_SCHEDULE_DIRECT,
                                  GQSGD_SCHEDULE_SPARSE};

TEST(Ends, CompleteCall_RankAborted_Ok) {
  for (const int32_t schedule : kSchedules) {
    for (const bool in_place : {true, false}) {
      Ranks ranks(3, "paper-gl8", schedule);
      std::vector<float> result(kValues, -1);
      if (!in_place) ranks.calls[0].recv = result.data();
      ranks.spoilt.at_flush = [&] {
        abort_endpoint(ranks.endpoints[0]);
        return Status();
      };
      ranks.finish();
      const std::string where =
          "schedule " + std::to_string(schedule) + (in_place ? ", in place" : ", apart");
      EXPECT_TRUE(test::succeeds(ranks.drives[0].status())) << where;
      EXPECT_NE(in_place ? ranks.values[0] : result, ranks.given[0]) << where;
      const Status broken = ranks.endpoints[0].intact();
      EXPECT_EQ(broken.code(), GQSGD_ABORTED) << where;
      EXPECT_STREQ(broken.sentence(), "rank 0 aborted its communicator") << where;
    }
  }
}

TEST(Ends, CallInPlace_FailsAtItsEnd_HasNotWritten) {
  for (const int32_t schedule : kSchedules) {
    Ranks ranks(3, "paper-gl8", schedule);
    ranks.spoilt.at_flush = [] { return fail(GQSGD_BACKEND, "the last words are stuck"); };
    ranks.finish();
    EXPECT_EQ(ranks.drives[0].status().code(), GQSGD_BACKEND) << "schedule " << schedule;
    EXPECT_EQ(ranks.values[0], ranks.given[0]) << "schedule " << schedule;
  }
}

// Rank 2 is stopped after it has made the call. In a ring rank 0 waits for it, and rank 1 for rank
// 0, which is healthy.
TEST(Ends, Timeout_NamesTheRankThatTheAwaitedOneWaitsFor) {
  Ranks ranks(3, "paper-gl8", GQSGD_SCHEDULE_RING);
  ranks.begin_all();
  for (int round = 0; round < 100; ++round) {
    for (const uint32_t rank : {0, 1}) ASSERT_FALSE(ranks.drives[rank].advance());
  }
  // The first wait finds what has come; one that sleeps says what it waits for.
  for (int waits = 0; waits < 3; ++waits) ranks.drives[0].wait();
  ranks.endpoints[1].timeout_ms = 1;
  while (!ranks.drives[1].has_ended()) ranks.drives[1].wait();
  EXPECT_EQ(ranks.drives[1].status().code(), GQSGD_TIMEOUT);
  const std::string sentence = ranks.drives[1].status().sentence();
  EXPECT_NE(sentence.find("rank 0 itself waits for rank 2, which is stopped or too slow"),
            std::string::npos)
      << sentence;
  EXPECT_TRUE(ranks.drives[0].advance());
  EXPECT_EQ(ranks.drives[0].status().code(), GQSGD_TIMEOUT);
  const std::string seen = ranks.drives[0].status().sentence();
  EXPECT_NE(seen.find("rank 2 made no progress"), std::string::npos) << seen;
}

// Rank 2 of a tree is stopped before it passes the result of call 1 on to rank 3. Rank 0 has its
// own, and waits in call 2 for rank 2 and for rank 3, which is healthy.
TEST(Ends, TimeoutOfANewCall_NamesNoRankThatIsKeptInTheCallBefore) {
  Ranks ranks(4, "paper-gl8", GQSGD_SCHEDULE_TREE);
  ranks.begin_all();
  for (int round = 0; round < 1000 && !ranks.drives[0].has_ended(); ++round) {
    for (const uint32_t rank : {2, 3, 1, 0}) ranks.drives[rank].advance();
  }
  ASSERT_TRUE(ranks.drives[0].has_ended());
  ASSERT_FALSE(ranks.drives[3].has_ended());
  // The first wait finds what has come; one that sleeps says what it waits for.
  for (int waits = 0; waits < 3; ++waits) ranks.drives[3].wait();
  while (!ranks.drives[1].has_ended()) ranks.drives[1].advance();
  ranks.drives[1].begin(ranks.endpoints[1], ranks.calls[1], Status());
  ranks.drives[1].advance();
  ranks.endpoints[0].timeout_ms = 1;
  ranks.drives[0].begin(ranks.endpoints[0], ranks.calls[0], Status());
  while (!ranks.drives[0].has_ended()) ranks.drives[0].wait();
  EXPECT_EQ(ranks.drives[0].status().code(), GQSGD_TIMEOUT);
  const std::string sentence = ranks.drives[0].status().sentence();
  EXPECT_NE(sentence.find("for rank 2 to make this call; it is late"), std::string::npos)
      << sentence;
}

TEST(Ends, ReservedWordThatIsNotZero_ProtocolNamesRankAndWord) {
  for (uint32_t k = 0; k < kControlWordCount - kControlDigestLow; ++k) {
    Ranks ranks(3);
    ranks.spoilt.reserved[k] = 5;
    ranks.finish();
    EXPECT_EQ(ranks.drives[0].status().code(), GQSGD_PROTOCOL);
    for (Endpoint& endpoint : ranks.endpoints) EXPECT_EQ(endpoint.intact().code(), GQSGD_PROTOCOL);
    const std::string sentence = ranks.endpoints[0].intact().sentence();
    const std::string named = "rank 0 has word " + std::to_string(16 + k) + " as 0x00000005";
    EXPECT_NE(sentence.find(named), std::string::npos) << sentence;
  }
}

// No rank differs from another: each is checked by itself.
TEST(Ends, OneRankWithAReservedWord_Protocol) {
  Ranks ranks(1);
  ranks.spoilt.reserved[3] = 1u << 31;
  ranks.finish();
  EXPECT_EQ(ranks.drives[0].status().code(), GQSGD_PROTOCOL);
}

}  // namespace
}  // namespace gq
