// Shared memory between threads: control messages, messages, growing arenas, and every way a rank
// can leave.
#include "src/transport/shared_memory/local.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "src/support/clock.h"
#include "src/transport/shared_memory/local_join.h"
#include "tests/unit/transport/children.h"
#include "tests/unit/transport/exchange.h"

namespace gq::test {
namespace {

using Ends = std::vector<std::unique_ptr<HostTransport>>;

Ends make_ends(uint32_t ranks) {
  Ends ends(ranks);
  EXPECT_EQ(text_of(create_local(ranks, ends.data())), "OK");
  return ends;
}

/** Runs `body` on one thread per rank; each rank's line. */
std::vector<std::string> on_all(Ends& ends,
                                const std::function<std::string(HostTransport&)>& body) {
  std::vector<std::string> lines(ends.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    if (!ends[rank]) continue;
    threads.emplace_back([&, rank] { lines[rank] = body(*ends[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  return lines;
}

bool contains(const std::string& line, const std::string& part) {
  return line.find(part) != std::string::npos;
}

TEST(Local, NoRanksAndTooMany_Refused) {
  std::unique_ptr<HostTransport> end;
  EXPECT_EQ(create_local(0, &end).code(), GQSGD_INVALID_ARGUMENT);
  EXPECT_EQ(create_local(kLocalRanksMax + 1, &end).code(), GQSGD_INVALID_ARGUMENT);
  EXPECT_EQ(end, nullptr);
}

TEST(Local, Groups_TagsOfTheirOwn) {
  const Ends first = make_ends(2), second = make_ends(2);
  EXPECT_EQ(first[0]->tag(), first[1]->tag());
  EXPECT_NE(first[0]->tag(), second[0]->tag());
}

// Also the two places of control messages in turn: 300 of them go through.
TEST(Local, ManySmallMessagesInBothDirections_Arrive) {
  for (const uint32_t ranks : {1u, 2u, 3u, 4u, 7u}) {
    Ends ends = make_ends(ranks);
    const auto lines = on_all(ends, [](HostTransport& transport) {
      for (uint64_t sequence = 1; sequence <= 300; ++sequence) {
        const Status status = exchange(transport, sequence, 64);
        if (!status.ok()) return text_of(status);
      }
      return std::string("OK");
    });
    EXPECT_EQ(lines, std::vector<std::string>(ranks, "OK")) << ranks << " ranks";
    const TransportCounters counters = ends[0]->counters();
    EXPECT_EQ(counters.messages_sent, 300 * (ranks - 1));
    EXPECT_EQ(counters.payload_bytes_sent, 300 * 64 * (ranks - 1));
    EXPECT_EQ(counters.header_bytes_sent, 300 * sizeof(ControlMessage) * (ranks - 1));
    EXPECT_EQ(counters.payload_bytes_copied, 0u);
  }
}

// A rank that is done grows its arena while slower peers still read the old one.
TEST(Local, ArenaGrows_PeersRead) {
  Ends ends = make_ends(3);
  const auto lines = on_all(ends, [](HostTransport& transport) {
    for (uint64_t sequence = 1; sequence <= 60; ++sequence) {
      const Status status = exchange(transport, sequence, 512 * sequence);
      if (!status.ok()) return text_of(status);
      unsigned char* base = nullptr;
      const size_t early = transport.rank() * 3 * 512 * (sequence + 1);
      if (!transport.arena(early, &base).ok()) return std::string("no arena");
    }
    return std::string("OK");
  });
  EXPECT_EQ(lines, std::vector<std::string>(3, "OK"));
}

TEST(Local, WordsRelayedByAnotherRank_ReadAtTheirOrigin) {
  Ends ends = make_ends(3);
  const auto lines = on_all(ends, [](HostTransport& transport) {
    const uint32_t self = transport.rank();
    if (!agree(transport, 1).ok()) return std::string("no agreement");
    unsigned char* base = nullptr;
    if (!transport.arena(64, &base).ok()) return std::string("no arena");
    const unsigned char* words = nullptr;
    if (self == 0) {
      base[8] = 42;
      return text_of(transport.send({1, 0, 0, 8, 4, 0}));
    }
    const Status status = receive_blocking(transport, {self - 1, 0, 0, 8, 4, 0}, &words);
    if (!status.ok() || words[0] != 42) return "not the words of rank 0: " + text_of(status);
    return self == 1 ? text_of(transport.send({2, 0, 0, 8, 4, 0})) : std::string("OK");
  });
  EXPECT_EQ(lines, std::vector<std::string>(3, "OK"));
}

TEST(Local, OneThread_Runs1024Ranks) {
  constexpr uint32_t kRanks = 1024;
  Ends ends = make_ends(kRanks);
  for (auto& end : ends) ASSERT_TRUE(end->send_control(1, control_of(end->rank(), 1)).ok());
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    unsigned char* base = nullptr;
    ASSERT_TRUE(ends[rank]->arena(4, &base).ok());
    base[0] = static_cast<unsigned char>(rank);
    ASSERT_TRUE(ends[rank]->send({(rank + 1) % kRanks, rank, rank, 0, 4, 0}).ok());
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const uint32_t from = (rank + kRanks - 1) % kRanks;
    ControlMessage message;
    bool there = false;
    ASSERT_TRUE(ends[rank]->receive_control(from, 1, &message, &there).ok());
    EXPECT_TRUE(there);
    const unsigned char* words = nullptr;
    ASSERT_TRUE(ends[rank]->receive({from, from, from, 0, 4, 0}, &words).ok());
    ASSERT_NE(words, nullptr);
    EXPECT_EQ(words[0], static_cast<unsigned char>(from));
  }
}

TEST(Local, Abort_EndsTheOwnWaitAndThePeers) {
  Ends ends = make_ends(3);
  std::atomic<int> waiting{0};
  std::thread aborter([&] {
    while (waiting.load() < 2) std::this_thread::yield();
    ends[2]->abort_group(GQSGD_ABORTED, 2);
  });
  const auto lines = on_all(ends, [&](HostTransport& transport) {
    const unsigned char* words = nullptr;
    waiting += 1;
    return text_of(
        receive_blocking(transport, {(transport.rank() + 1) % 3, 0, 0, 0, 4, 0}, &words));
  });
  aborter.join();
  EXPECT_TRUE(contains(lines[0], "ABORTED: rank 2 aborted")) << lines[0];
  EXPECT_TRUE(contains(lines[1], "ABORTED: rank 2 aborted")) << lines[1];
  EXPECT_TRUE(contains(lines[2], "ABORTED: rank 2 (this rank) was aborted")) << lines[2];
  EXPECT_EQ(ends[0]->send_control(1, ControlMessage()).code(), GQSGD_ABORTED);
  ends[0]->abort_group(GQSGD_TIMEOUT, 1);
  EXPECT_EQ(ends[0]->check().code(), GQSGD_ABORTED) << "the first cause stays";
}

TEST(Local, DestroyedPeer_NamedToRanksThatNeedIt) {
  Ends ends = make_ends(3);
  ends[1].reset();
  const auto lines =
      on_all(ends, [](HostTransport& transport) { return text_of(exchange(transport, 1)); });
  for (const size_t rank : {0u, 2u}) {
    EXPECT_TRUE(contains(lines[rank], "PEER_LOST: rank 1 destroyed its communicator"))
        << lines[rank];
  }
}

TEST(Local, Sentence_NamesWhatWasAwaited) {
  Ends ends = make_ends(2);
  ASSERT_TRUE(ends[0]->send_control(1, control_of(0, 1)).ok());
  ControlMessage message;
  bool there = true;
  ASSERT_TRUE(ends[0]->receive_control(1, 1, &message, &there).ok());
  EXPECT_FALSE(there);
  ends[1].reset();
  EXPECT_EQ(text_of(ends[0]->check()),
            "PEER_LOST: rank 1 destroyed its communicator; rank 0 awaited call 1 of rank 1");
}

TEST(Local, PeerLeavesAfterItsPart_NotMissed) {
  Ends ends = make_ends(2);
  ASSERT_TRUE(ends[0]->send_control(1, control_of(0, 1)).ok());
  unsigned char* base = nullptr;
  ASSERT_TRUE(ends[0]->arena(4, &base).ok());
  base[0] = 7;
  ASSERT_TRUE(ends[0]->send({1, 0, 0, 0, 4, 0}).ok());
  ASSERT_TRUE(ends[1]->send_control(1, control_of(1, 1)).ok());
  ends[0].reset();
  EXPECT_EQ(text_of(ends[1]->wait(1000)), "OK");
  const unsigned char* words = nullptr;
  ASSERT_TRUE(ends[1]->receive({0, 0, 0, 0, 4, 0}, &words).ok());
  ASSERT_NE(words, nullptr);
  EXPECT_EQ(words[0], 7);
  EXPECT_EQ(text_of(ends[1]->check()), "OK");
  ASSERT_TRUE(ends[1]->send_control(2, control_of(1, 2)).ok());
  EXPECT_EQ(ends[1]->check().code(), GQSGD_PEER_LOST) << "the next operation needs it";
}

// Rank 0 waits for 1, which waits for 2, which does nothing: the rank that times out first names
// rank 2.
TEST(Local, Timeout_NamesTheRankThatAllWaitFor) {
  Ends ends = make_ends(3);
  std::vector<std::string> lines(2);
  std::vector<std::thread> threads;
  for (const uint32_t rank : {0u, 1u}) {
    threads.emplace_back([&, rank] {
      const unsigned char* words = nullptr;
      const int64_t timeout_ms = rank == 0 ? 100 : kTimeoutMs;
      lines[rank] =
          text_of(receive_blocking(*ends[rank], {rank + 1, 0, 0, 0, 4, 0}, &words, timeout_ms));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& line : lines) {
    EXPECT_TRUE(contains(line, "TIMEOUT: rank 0 gave up: rank 2 made no progress")) << line;
  }
  EXPECT_TRUE(contains(lines[1], "rank 1 awaited message 1 of rank 2")) << lines[1];
  const std::string revoked = text_of(ends[2]->send_control(1, ControlMessage()));
  EXPECT_TRUE(contains(revoked, "REVOKED: rank 0 gave up on rank 2")) << revoked;
  EXPECT_TRUE(contains(revoked, "stopped or too slow; calls of this group fail on all ranks"))
      << revoked;
}

TEST(Local, FailureOfOneRank_RemoteErrorToOthers) {
  Ends ends = make_ends(2);
  ends[1]->abort_group(GQSGD_NO_MEMORY, 1);
  EXPECT_EQ(ends[1]->check().code(), GQSGD_NO_MEMORY);
  const std::string line = text_of(ends[0]->check());
  EXPECT_TRUE(contains(line, "REMOTE_ERROR: rank 1 broke off with NO_MEMORY")) << line;
}

TEST(Local, Wait_ReturnsAfterItsSlice) {
  Ends ends = make_ends(2);
  const uint64_t begin_us = monotonic_us();
  EXPECT_EQ(text_of(ends[0]->wait(30000)), "OK");
  const uint64_t slept_us = monotonic_us() - begin_us;
  EXPECT_GE(slept_us, 30000u);
  EXPECT_LT(slept_us, 1000000u);
}

// A ring between the last look and the wait must not be slept through.
TEST(Local, EarlierNews_WaitReturnsAtOnce) {
  Ends ends = make_ends(2);
  for (int turn = 0; turn < 100; ++turn) {
    ASSERT_TRUE(ends[1]->send({0, 1, 1, 0, 0, 0}).ok());
    const uint64_t begin_us = monotonic_us();
    EXPECT_EQ(text_of(ends[0]->wait(10000000)), "OK");
    EXPECT_LT(monotonic_us() - begin_us, 5000000u);
  }
}

/** A group of this thread alone. */
Status join_alone() {
  gqsgd_unique_id id;
  GQ_TRY(make_local_id(&id));
  std::unique_ptr<HostTransport> end;
  return join_local(id, 0, 1, 5000, &end);
}

// The child has none of the parent's threads: one of them holds the lock of all groups that form,
// or waits for a group, at the moment of the fork.
TEST(LocalJoin, ForksWhileThreadsJoin_ChildrenJoin) {
  gqsgd_unique_id awaited;
  ASSERT_EQ(text_of(make_local_id(&awaited)), "OK");
  std::string waited;
  std::thread waiting([&] {
    std::unique_ptr<HostTransport> end;
    waited = text_of(join_local(awaited, 0, 2, 60000, &end));
  });
  std::atomic<bool> is_over{false};
  std::thread joining([&] {
    while (!is_over && join_alone().ok()) {
    }
  });
  for (int fork = 0; fork < 100; ++fork) {
    Child child([&] {
      std::unique_ptr<HostTransport> end;
      const std::string alone = text_of(join_alone());
      return alone + ", " + text_of(join_local(awaited, 1, 2, 1, &end));
    });
    const std::string line = child.line();
    EXPECT_TRUE(contains(line, "OK, TIMEOUT: missing ranks: 0; rank 1 waited 1 ms")) << line;
    if (HasFailure()) break;  // each may take a minute
  }
  is_over = true;
  joining.join();
  std::unique_ptr<HostTransport> end;
  EXPECT_EQ(text_of(join_local(awaited, 1, 2, 60000, &end)), "OK");
  waiting.join();
  EXPECT_EQ(waited, "OK");
}

}  // namespace
}  // namespace gq::test
