// What a rank sees of peers over UCX that die, stop or leave, and what it still gets from them.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "src/support/clock.h"
#include "tests/unit/transport/exchange.h"
#include "tests/unit/transport/process_group.h"
#include "tests/unit/transport/ucx/ucx_ranks.h"

namespace gq::test {
namespace {

class UcxDeath : public testing::TestWithParam<Wire> {
 protected:
  void SetUp() override { GQ_SKIP_WITHOUT_UCX(); }
};

/** How long destroy() takes, in milliseconds. */
uint64_t destruction_ms(UcxRank& rank) {
  const uint64_t begin_us = monotonic_us();
  rank.destroy();
  return (monotonic_us() - begin_us) / 1000;
}

/** Rank 0 does `body` while rank 1 gets a signal after the first barrier. */
std::string with_signalled_peer(const Wire& wire, int signal_number, const UcxBody& body) {
  SharedArray<PostedAddress> addresses(2);
  Signal ready, signalled;
  Child one = ucx_child(0, 2, addresses.data(), wire, [&](UcxRank& rank) -> std::string {
    if (const Status status = rank.barrier(); !status.ok()) return text_of(status);
    ready.send();
    if (!signalled.wait()) return "no signal";
    return body(rank);
  });
  Child other = ucx_child(1, 2, addresses.data(), wire, [&](UcxRank& rank) -> std::string {
    if (const Status status = rank.barrier(); !status.ok()) return text_of(status);
    ready.send();
    rank.progress_for_ms(30000);
    return "was not signalled";
  });
  if (!ready.wait() || !ready.wait()) return "no barrier";
  other.signal(signal_number);
  usleep(20000);
  signalled.send();
  return one.line();
}

TEST_P(UcxDeath, KilledPeer_RequestsEndAndDestroyReturns) {
  const std::string line = with_signalled_peer(GetParam(), SIGKILL, [](UcxRank& rank) {
    const std::string large = pattern(8 << 20, 1);
    std::string never(100, 'x');
    UcxRequest send, receive;
    Status status = rank.engine().start_send(1, 1, large.data(), large.size(), &send);
    if (status.ok()) status = rank.engine().start_receive(1, 1, never.data(), 100, &receive);
    if (!status.ok()) return text_of(status);
    rank.progress_for_ms(500);
    const bool is_noticed = rank.engine().failed_peer() == 1;
    bool is_sent = false;
    const Status sent = rank.engine().test(&send, &is_sent);
    const uint64_t end_ms = destruction_ms(rank);
    return std::string(is_noticed ? "noticed" : "not noticed") + " | " + text_of(sent) + " | " +
           (send.is_pending() || receive.is_pending() ? "pending" : "idle") + " | " +
           (end_ms < 1000 ? "soon" : "late");
  });
  EXPECT_TRUE(contains(line, "| idle | soon")) << line;
  // Shared memory shows a death late; the caller has other means.
  EXPECT_TRUE(GetParam().tls == nullptr ||
              line.rfind("noticed | PEER_LOST: rank 0: the send to rank 1 failed", 0) == 0)
      << line;
}

TEST_P(UcxDeath, DestroyWithPendingRequests_ReturnsAtOnce_AndFreesThem) {
  const std::string line = with_signalled_peer(GetParam(), SIGSTOP, [](UcxRank& rank) {
    const std::string large = pattern(64 << 20, 1);
    const std::string small = pattern(3000, 1);
    std::vector<UcxRequest> sends(400);
    std::string never(1 << 20, 'x');
    UcxRequest receive, flush;
    Status status = rank.engine().start_receive(1, 1, never.data(), never.size(), &receive);
    for (size_t i = 0; i < sends.size() && status.ok(); ++i) {
      const std::string& bytes = i % 100 == 50 ? large : small;
      status = rank.engine().start_send(1, 1, bytes.data(), bytes.size(), &sends[i]);
    }
    if (status.ok()) status = rank.engine().start_flush(1, &flush);
    if (!status.ok()) return text_of(status);
    rank.progress_for_ms(100);
    const uint64_t end_ms = destruction_ms(rank);
    for (const UcxRequest& send : sends) {
      if (send.is_pending()) return std::string("a send is pending");
    }
    if (receive.is_pending() || flush.is_pending()) return std::string("still pending");
    return std::string(end_ms < 1000 ? "soon" : "late");
  });
  EXPECT_EQ(line, "soon");
}

struct Leaving {
  Wire wire;
  size_t size_bytes;
  bool destroys;  // before it leaves
};

constexpr int kMessages = 4;

/** Message `i` of a rank that leaves: the first is short. */
std::string message(const Leaving& leaving, int i) {
  return pattern(i == 0 ? 40 : leaving.size_bytes, static_cast<uint32_t>(i));
}

/** Sends while the other does not progress; its process ends when this returns. */
std::string send_all(UcxRank& rank, const Leaving& leaving) {
  Status status = rank.barrier();
  std::vector<UcxRequest> sends(kMessages);
  std::vector<std::string> messages;
  for (int i = 0; i < kMessages; ++i) messages.push_back(message(leaving, i));
  for (size_t i = 0; i < kMessages && status.ok(); ++i) {
    status = rank.engine().start_send(1, 1, messages[i].data(), messages[i].size(), &sends[i]);
  }
  for (UcxRequest& send : sends) {
    if (status.ok()) status = rank.wait(&send);
  }
  if (status.ok()) status = rank.flush(1);
  if (status.ok() && leaving.destroys) rank.destroy();
  return text_of(status);
}

std::string receive_all(UcxRank& rank, const Leaving& leaving) {
  Status status = rank.barrier();
  usleep(50000);
  for (int i = 0; i < kMessages && status.ok(); ++i) {
    const std::string expected = message(leaving, i);
    std::string received(expected.size(), 'x');
    status = rank.receive(0, 1, &received);
    if (status.ok() && received != expected) return "wrong bytes";
  }
  return text_of(status);
}

/** Pairs of processes at the same time, of which one sends and leaves. */
void expect_all_received(const Leaving& leaving, uint32_t pairs) {
  SharedArray<PostedAddress> addresses(2 * pairs);
  std::vector<Child> children;
  for (uint32_t pair = 0; pair < pairs; ++pair) {
    PostedAddress* const both = &addresses[2 * pair];
    children.push_back(ucx_child(0, 2, both, leaving.wire,
                                 [&](UcxRank& rank) { return send_all(rank, leaving); }));
    children.push_back(ucx_child(1, 2, both, leaving.wire,
                                 [&](UcxRank& rank) { return receive_all(rank, leaving); }));
  }
  EXPECT_EQ(lines_of(children), std::vector<std::string>(2 * pairs, "OK"))
      << leaving.size_bytes << " bytes" << (leaving.destroys ? ", destroyed" : "");
}

TEST_P(UcxDeath, SenderThatLeavesAfterItsFlush_MessagesArrive) {
  constexpr uint32_t kPairs = 4;
  const char* const more = getenv("GQSGD_TEST_TRIES");
  const int batches = more == nullptr ? 1 : atoi(more) / static_cast<int>(2 * kPairs);
  for (const size_t size_bytes : {1000, 8000, 60000, 300000, 4 << 20}) {
    for (int i = 0; i < batches && !HasFailure(); ++i) {
      expect_all_received({GetParam(), size_bytes, false}, kPairs);
      expect_all_received({GetParam(), size_bytes, true}, kPairs);
    }
  }
}

struct Blocked {
  std::atomic<int> done;  // messages, once the sender is blocked
  std::atomic<bool> is_flushing;
};

/** Sends until the peer, which does not progress, must; then flushes and leaves. The last message
 *  stays pending. */
std::string send_until_blocked(UcxRank& rank, size_t size_bytes, Blocked& blocked) {
  Status status = rank.barrier();
  const std::string bytes = pattern(size_bytes, 1);
  UcxRequest send, flush;
  int done = 0;
  for (; status.ok(); ++done) {
    status = rank.engine().start_send(1, 1, bytes.data(), size_bytes, &send);
    if (status.ok()) status = rank.wait(&send, 30);
  }
  if (status.code() != GQSGD_TIMEOUT) return text_of(status);
  blocked.done = done - 1;
  status = rank.engine().start_flush(1, &flush);
  blocked.is_flushing = true;
  if (status.ok()) (void)rank.wait(&flush);  // fails if the peer has all it waits for, and leaves
  _exit(0);
}

std::string receive_all_done(UcxRank& rank, size_t size_bytes, Blocked& blocked) {
  Status status = rank.barrier();
  while (!blocked.is_flushing) usleep(1000);
  usleep(10000);
  for (int i = 0; i < blocked.done && status.ok(); ++i) {
    UcxRequest receive;
    std::string bytes(size_bytes, 'x');
    status = rank.engine().start_receive(0, 1, bytes.data(), size_bytes, &receive);
    if (status.ok()) status = rank.wait(&receive, 2000);
    if (receive.is_pending()) {
      printf("message %d of %d is lost\n", i, blocked.done.load());
      fflush(stdout);
      _exit(5);
    }
    if (status.ok() && bytes != pattern(size_bytes, 1)) return "wrong bytes";
  }
  return text_of(status);
}

// Small buffers of the system: a message that is done is in part still in UCX's own.
TEST(UcxLeave, BlockedSenderThatLeavesAfterItsFlush_MessagesThatAreDoneArrive) {
  GQ_SKIP_WITHOUT_UCX();
  int done = 0;
  for (const size_t size_bytes : {100, 8000}) {
    for (const char* buffer : {"4K", "16K"}) {
      setenv("UCX_TCP_SNDBUF", buffer, 1);
      setenv("UCX_TCP_RCVBUF", buffer, 1);
      SharedArray<PostedAddress> addresses(2);
      SharedArray<Blocked> blocked(1);
      Child one = ucx_child(0, 2, addresses.data(), kWires[1], [&](UcxRank& rank) {
        return send_until_blocked(rank, size_bytes, blocked[0]);
      });
      Child other = ucx_child(1, 2, addresses.data(), kWires[1], [&](UcxRank& rank) {
        return receive_all_done(rank, size_bytes, blocked[0]);
      });
      EXPECT_EQ(one.line(), "");
      EXPECT_EQ(other.line(), "OK") << size_bytes << " bytes, buffers of " << buffer;
      done += blocked[0].done;
    }
  }
  EXPECT_GT(done, 4);
  unsetenv("UCX_TCP_SNDBUF");
  unsetenv("UCX_TCP_RCVBUF");
}

INSTANTIATE_TEST_SUITE_P(Wires, UcxDeath, testing::ValuesIn(kWires),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gq::test
