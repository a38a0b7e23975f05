// What a call that fails leaves of its communicator: usable where all ranks share the failure,
// broken where one of them is gone.
#include "src/call/progress_loop.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "src/api/quantizer/quantizer_spec.h"
#include "src/transport/shared_memory/local.h"
#include "tests/support/succeeds.h"
#include "tests/unit/execute/wrapped_transport.h"

namespace gq {
namespace {

constexpr uint32_t kRanks = 2;

class TwoRanks : public testing::Test {
 protected:
  TwoRanks() {
    std::unique_ptr<HostTransport> transports[kRanks];
    EXPECT_TRUE(test::succeeds(create_local(kRanks, transports)));
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      endpoints_[rank].set_transport(std::move(transports[rank]));
      endpoints_[rank].stages = cpu_stages_named("scalar");
      endpoints_[rank].chunk_value_count = 64;
      endpoints_[rank].timeout_ms = 20000;
      EXPECT_TRUE(test::succeeds(parse_quantizer("none", &calls_[rank].format)));
    }
  }

  Endpoint endpoints_[kRanks];
  Call calls_[kRanks];
  ProgressLoop loops_[kRanks];
};

TEST_F(TwoRanks, RefusalReadByOneRank_BothUsable) {
  loops_[0].begin(endpoints_[0], calls_[0], Status());
  loops_[1].begin(endpoints_[1], calls_[1], fail(GQSGD_INVALID_ARGUMENT, "no"));
  for (ProgressLoop& loop : loops_) EXPECT_TRUE(loop.advance());
  EXPECT_EQ(loops_[0].status().code(), GQSGD_REMOTE_ERROR);
  EXPECT_EQ(loops_[1].status().code(), GQSGD_INVALID_ARGUMENT);
  for (Endpoint& endpoint : endpoints_) EXPECT_TRUE(endpoint.failure.get().ok());
}

// What src/survivors goes by: a call that has overwritten its input cannot be made again.
TEST_F(TwoRanks, EndedCall_HasOverwrittenItsInput_UnlessItHasNone) {
  float values[kRanks] = {1, 2};
  for (const bool has_values : {false, true}) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      calls_[rank].send = calls_[rank].recv = has_values ? &values[rank] : nullptr;
      calls_[rank].value_count = has_values ? 1 : 0;
      loops_[rank].begin(endpoints_[rank], calls_[rank], Status());
    }
    for (int turn = 0; turn < 100; ++turn) {
      for (ProgressLoop& loop : loops_) loop.advance();
    }
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_TRUE(loops_[rank].has_ended());
      EXPECT_TRUE(test::succeeds(loops_[rank].status()));
      EXPECT_TRUE(endpoints_[rank].newest_ended.has_result);
      EXPECT_EQ(endpoints_[rank].newest_ended.in_place, has_values);
    }
  }
}

// Rank 1 has read all control messages and finds no memory; rank 0 receives the failure while it
// still reads them.
TEST_F(TwoRanks, PeerAbortsBeforeAgreement_Broken) {
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    calls_[rank].value_count = uint64_t{1} << 61;
    loops_[rank].begin(endpoints_[rank], calls_[rank], Status());
  }
  EXPECT_TRUE(loops_[1].advance());
  EXPECT_EQ(loops_[1].status().code(), GQSGD_NO_MEMORY) << loops_[1].status().sentence();
  EXPECT_TRUE(loops_[0].advance());
  EXPECT_EQ(loops_[0].status().code(), GQSGD_REMOTE_ERROR);
  EXPECT_STREQ(loops_[0].status().sentence(),
               "rank 1 broke off with NO_MEMORY: memory could not be allocated");
  EXPECT_EQ(endpoints_[0].failure.get().code(), GQSGD_REMOTE_ERROR);
}

/** Cannot receive, for a reason of its own. */
class DeafTransport final : public WrappedTransport {
 public:
  using WrappedTransport::WrappedTransport;
  Status receive_control(uint32_t, uint64_t, ControlMessage*, bool*) override {
    return fail(GQSGD_SYSTEM, "the system is against it");
  }
};

// Other ranks go on with a call whose control messages are all there: this one has not ended alike.
TEST_F(TwoRanks, ControlMessagesCannotBeRead_BrokenOnBoth) {
  endpoints_[0].set_transport(std::make_unique<DeafTransport>(std::move(endpoints_[0].host)));
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    loops_[rank].begin(endpoints_[rank], calls_[rank], Status());
  }
  for (ProgressLoop& loop : loops_) EXPECT_TRUE(loop.advance());
  EXPECT_EQ(loops_[0].status().code(), GQSGD_SYSTEM);
  EXPECT_EQ(endpoints_[0].failure.get().code(), GQSGD_SYSTEM);
  EXPECT_EQ(endpoints_[0].ended_calls, 0u);
  EXPECT_EQ(loops_[1].status().code(), GQSGD_REMOTE_ERROR);
  EXPECT_EQ(endpoints_[1].failure.get().code(), GQSGD_REMOTE_ERROR);
}

TEST_F(TwoRanks, UnknownStatusInAControlMessage_ProtocolOfItsRank) {
  ControlMessage control;
  control.words[kControlStatus] = 1234;
  ASSERT_TRUE(test::succeeds(endpoints_[1].host->send_control(1, control)));
  loops_[0].begin(endpoints_[0], calls_[0], Status());
  EXPECT_TRUE(loops_[0].advance());
  EXPECT_EQ(loops_[0].status().code(), GQSGD_PROTOCOL);
  const std::string sentence = loops_[0].status().sentence();
  EXPECT_NE(sentence.find("the control message of rank 1 has the unknown status 1234"),
            std::string::npos)
      << sentence;
  EXPECT_EQ(endpoints_[1].transport->check().code(), GQSGD_REVOKED) << "it was rank 1";
  EXPECT_FALSE(endpoints_[0].failure.get().ok());
}

/** 0 would say that no values are at fault, and others would get REMOTE_ERROR. */
TEST_F(TwoRanks, MoreValuesAreNotFiniteThanAWordCounts_TheMostThatItHas) {
  const ControlMessage refusal = Agreement::refusal_of(endpoints_[0], calls_[0], GQSGD_NONFINITE,
                                                       {3, uint64_t{1} << 32});
  EXPECT_EQ(refusal.words[kControlChunk], UINT32_MAX);
}

/** Values that ranks of one process send with their control messages. */
struct Letters final : Enclosures {
  size_t bytes_max() const override { return sizeof bytes; }
  void enclose(const Enclosed& values, uint64_t) override {
    memcpy(bytes, values.bytes, values.size_bytes);
    own = {bytes, values.size_bytes, values.checksum};
  }
  Enclosed from(uint32_t peer) const override { return of_all[peer]->own; }

  unsigned char bytes[64];
  Enclosed own;
  const Letters* const* of_all = nullptr;
};

/** Short calls over threads, whose control messages leave when the test says so. */
class EnclosingTransport final : public WrappedTransport {
 public:
  EnclosingTransport(std::unique_ptr<HostTransport> inner, Letters* letters, const bool* leaves)
      : WrappedTransport(std::move(inner)), letters_(letters), leaves_(leaves) {}
  Enclosures* enclosures() override { return letters_; }
  Status flushed(bool* done) override {
    *done = *leaves_;
    return Status();
  }

 private:
  Letters* letters_;
  const bool* leaves_;
};

class ShortCallsOfTwoRanks : public TwoRanks {
 protected:
  ShortCallsOfTwoRanks() {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      Endpoint& endpoint = endpoints_[rank];
      letters_[rank].of_all = all_letters_;
      endpoint.set_transport(std::make_unique<EnclosingTransport>(std::move(endpoint.host),
                                                                  &letters_[rank], &leaves_));
      Call& call = calls_[rank];
      call.schedule_id = GQSGD_SCHEDULE_DIRECT;
      call.send = call.recv = values_[rank];
      call.value_count = 2;
      loops_[rank].begin(endpoint, call, Status());
    }
  }

  bool leaves_ = false;
  Letters letters_[kRanks];
  const Letters* const all_letters_[kRanks] = {&letters_[0], &letters_[1]};
  float values_[kRanks][2] = {{1, 2}, {3, 6}};
};

TEST_F(ShortCallsOfTwoRanks, InPlace_FailsBeforeTheValuesHaveLeft_InputIsAsItWas) {
  EXPECT_FALSE(loops_[0].advance());
  endpoints_[1].transport->abort_group(GQSGD_ABORTED, 1);
  loops_[0].wait();
  EXPECT_EQ(loops_[0].status().code(), GQSGD_ABORTED) << loops_[0].status().sentence();
  EXPECT_EQ(values_[0][0], 1);
  EXPECT_EQ(values_[0][1], 2);
}

TEST_F(ShortCallsOfTwoRanks, InPlace_ValuesHaveLeft_ResultOnBoth) {
  EXPECT_FALSE(loops_[0].advance());
  leaves_ = true;
  for (ProgressLoop& loop : loops_) {
    EXPECT_TRUE(loop.advance());
    EXPECT_TRUE(test::succeeds(loop.status()));
  }
  for (const auto& values : values_) {
    EXPECT_EQ(values[0], 2);
    EXPECT_EQ(values[1], 4);
  }
}

}  // namespace
}  // namespace gq
