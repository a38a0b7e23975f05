// What a call that fails leaves of its communicator: usable where all ranks share the failure,
// broken where one of them is gone.
#include "src/call/progress_loop.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "src/api/quantizer/quantizer_spec.h"
#include "src/transport/shared_memory/local.h"
#include "tests/support/succeeds.h"

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

}  // namespace
}  // namespace gq
