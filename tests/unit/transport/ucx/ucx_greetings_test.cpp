// What a group learns of UCX while it forms: whom it reaches, and that a group has failed
// elsewhere.
#include <gtest/gtest.h>
#include <signal.h>

#include "src/support/clock.h"
#include "src/transport/network/greetings.h"
#include "tests/unit/transport/exchange.h"
#include "tests/unit/transport/process_group.h"
#include "tests/unit/transport/ucx/ucx_ranks.h"

namespace gq::test {
namespace {

/** A bootstrap of which only has_failed() is asked. */
class Formed final : public NetworkBootstrap {
 public:
  explicit Formed(bool has_failed) : has_failed_(has_failed) {}
  Status gather(Status own, const NetworkMember&, NetworkTable*) override { return own; }
  Status connect(Status own, const std::vector<unsigned char>&, EngineAddresses*) override {
    return own;
  }
  bool has_failed() override { return has_failed_; }
  Status conclude(Status own, NetworkLinks*) override { return own; }

 private:
  bool has_failed_;
};

NetworkToken token_of(const UcxRank& rank, int64_t timeout_ms) {
  NetworkToken token;
  token.rank = rank.rank();
  token.size = rank.size();
  token.deadline = Deadline(deadline_after_ms(timeout_ms));
  return token;
}

std::string exchange(UcxRank& rank, int64_t timeout_ms, bool has_failed) {
  Greetings greetings(rank.size(), rank.engine().paths());
  Formed formed(has_failed);
  const Status status = greetings.exchange(token_of(rank, timeout_ms), &formed, &rank.engine());
  // As conclude(), which keeps all ends until all ranks have reported.
  if (status.ok() && !has_failed) (void)rank.barrier();
  if (!status.ok()) usleep(1500000);
  rank.destroy();
  return text_of(status);
}

class UcxGreetings : public testing::TestWithParam<Wire> {
 protected:
  void SetUp() override { GQ_SKIP_WITHOUT_UCX(); }
};

TEST_P(UcxGreetings, OfAllRanks_Done) {
  const auto lines =
      run_ucx_ranks(4, GetParam(), [](UcxRank& rank) { return exchange(rank, 20000, false); });
  EXPECT_EQ(lines, std::vector<std::string>(4, "OK"));
}

TEST_P(UcxGreetings, ARankThatDoesNotAnswer_TimeoutNamesIt) {
  const auto lines = run_ucx_ranks(3, GetParam(), [](UcxRank& rank) -> std::string {
    if (rank.rank() != 1) return exchange(rank, 300, false);
    usleep(2000000);
    return "OK";
  });
  for (const uint32_t rank : {0, 2}) {
    EXPECT_TRUE(contains(lines[rank], "TIMEOUT: rank " + std::to_string(rank)) &&
                contains(lines[rank], "rank 1 in the time allowed"))
        << lines[rank];
  }
}

TEST_P(UcxGreetings, GroupThatHasFailed_ReturnsWithoutThem) {
  const auto lines = run_ucx_ranks(2, GetParam(), [](UcxRank& rank) -> std::string {
    if (rank.rank() == 0) return exchange(rank, 20000, true);
    usleep(500000);
    return "OK";
  });
  EXPECT_EQ(lines, std::vector<std::string>(2, "OK"));
}

INSTANTIATE_TEST_SUITE_P(Wires, UcxGreetings, testing::ValuesIn(kWires),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gq::test
