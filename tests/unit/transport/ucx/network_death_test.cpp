// A rank of a network dies and owes nothing: what those that go on wait for then.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "src/support/clock.h"
#include "src/transport/network/network.h"
#include "tests/unit/transport/process_group.h"
#include "tests/unit/transport/ucx/ucx_ranks.h"

namespace gq::test {
namespace {

constexpr uint32_t kRanks = 3;
constexpr uint32_t kVictim = 1;
constexpr size_t kBytes = 4096;
constexpr int64_t kShortMs = 6000;

struct PostedId {
  gqsgd_unique_id id;
  std::atomic<uint32_t> is_there;
};

Status join_network(uint32_t rank, PostedId* posted, std::unique_ptr<HostTransport>* transport) {
  NetworkOptions options;
  options.address = "127.0.0.1";
  if (rank == 0) {
    GQ_TRY(create_network_id(options, &posted->id));
    posted->is_there = 1;
  }
  for (int step = 0; posted->is_there == 0 && step < 20000; ++step) usleep(1000);
  return create_network(posted->id, rank, kRanks, options, kTimeoutMs, transport);
}

/** Words that the other survivor makes for this rank. */
Message message_between(uint32_t peer, uint32_t sender, uint32_t receiver) {
  return Message{peer, sender, sender, receiver * kBytes, kBytes, receiver * kBytes};
}

using SurvivorBody = std::function<Status(HostTransport&, uint32_t other)>;

/** All ranks have each other's control message when one is killed; what the others,
 *  which then run `body`, say. */
std::vector<std::string> lines_after_death(const SurvivorBody& body) {
  SharedArray<PostedId> posted(1);
  Signal ready, killed;
  std::vector<Child> children;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    children.emplace_back([&, rank]() -> std::string {
      std::unique_ptr<HostTransport> transport;
      Status status = join_network(rank, &posted[0], &transport);
      unsigned char* words = nullptr;
      if (status.ok()) status = transport->arena(kRanks * kBytes, &words);
      if (status.ok()) status = agree(*transport, 1);
      if (!status.ok()) return text_of(status);
      ready.send();
      if (rank == kVictim) pause();
      if (!killed.wait()) return "no signal";
      return text_of(body(*transport, kRanks - 1 - rank));
    });
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(ready.wait());
  children[kVictim].signal(SIGKILL);
  killed.send();
  killed.send();
  std::vector<std::string> lines = lines_of(children);
  lines.erase(lines.begin() + kVictim);
  return lines;
}

Status receive_from(HostTransport& transport, uint32_t other) {
  const unsigned char* words = nullptr;
  const Message message = message_between(other, other, transport.rank());
  GQ_TRY(transport.expect(message));
  return receive_blocking(transport, message, &words, kShortMs);
}

class NetworkDeath : public testing::Test {
 protected:
  void SetUp() override { GQ_SKIP_WITHOUT_UCX(); }
};

// As where the victim was killed in the middle of a message to one of them: UCX hands over nothing
// more there, of the other neither.
TEST_F(NetworkDeath, SurvivorsThatWaitForEachOther_NameIt) {
  for (const std::string& line : lines_after_death(receive_from)) {
    EXPECT_TRUE(contains(line, "PEER_LOST: ") && contains(line, "rank 1")) << line;
  }
}

TEST_F(NetworkDeath, SurvivorThatIsLate_IsAwaited) {
  const std::vector<std::string> lines =
      lines_after_death([](HostTransport& transport, uint32_t other) -> Status {
        if (transport.rank() == 0) return receive_from(transport, other);
        usleep(2500000);
        GQ_TRY(transport.send(message_between(other, transport.rank(), other)));
        const uint64_t deadline_us = deadline_after_ms(kShortMs);
        for (bool done = false; !done && monotonic_us() < deadline_us;) {
          GQ_TRY(transport.flushed(&done));
          if (!done) GQ_TRY(transport.wait(5000));
        }
        return Status();
      });
  EXPECT_EQ(lines, std::vector<std::string>(2, "OK"));
}

}  // namespace
}  // namespace gq::test
