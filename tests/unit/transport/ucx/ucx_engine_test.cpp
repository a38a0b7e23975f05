// Messages between processes over UCX: what arrives, in which order, and what a rank is told of a
// message of another size.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <thread>

#include "tests/unit/transport/exchange.h"
#include "tests/unit/transport/process_group.h"
#include "tests/unit/transport/ucx/ucx_ranks.h"

namespace gq::test {
namespace {

// Around the limits between UCX's ways to send on both wires.
constexpr size_t kSizes[] = {0, 1, 64, 100, 1000, 8000, 8192, 8300, 65536, 262145, 4194305};

class UcxMessages : public testing::TestWithParam<Wire> {
 protected:
  void SetUp() override { GQ_SKIP_WITHOUT_UCX(); }

  void expect_ok(uint32_t size, const UcxBody& body) {
    EXPECT_EQ(run_ucx_ranks(size, GetParam(), body), std::vector<std::string>(size, "OK"));
  }
};

std::string check_received(const std::string& bytes, const std::string& expected) {
  if (bytes == expected) return "OK";
  return "wrong bytes in a message of " + std::to_string(expected.size());
}

TEST_P(UcxMessages, AllSizes_SameBytes) {
  expect_ok(2, [](UcxRank& rank) -> std::string {
    const uint32_t peer = 1 - rank.rank();
    for (const size_t size_bytes : kSizes) {
      const std::string sent = pattern(size_bytes, rank.rank());
      std::string received(size_bytes, 'x');
      UcxRequest send, receive;
      Status status = rank.engine().start_send(peer, 7, sent.data(), sent.size(), &send);
      if (status.ok()) {
        status = rank.engine().start_receive(peer, 7, received.data(), size_bytes, &receive);
      }
      if (status.ok()) status = rank.wait(&receive);
      if (status.ok()) status = rank.wait(&send);
      if (!status.ok()) return std::to_string(size_bytes) + ": " + text_of(status);
      if (received != pattern(size_bytes, peer)) return check_received("", received + "?");
    }
    return text_of(rank.barrier());
  });
}

TEST_P(UcxMessages, OfFourRanksAndThemselves_EachFromItsSender) {
  expect_ok(4, [](UcxRank& rank) -> std::string {
    constexpr size_t kBytes = 30000;
    std::vector<std::string> sent, received(rank.size(), std::string(kBytes, 'x'));
    std::vector<UcxRequest> requests(2 * rank.size());
    for (uint32_t peer = 0; peer < rank.size(); ++peer) {
      sent.push_back(pattern(kBytes, 16 * rank.rank() + peer));
    }
    for (uint32_t peer = 0; peer < rank.size(); ++peer) {
      Status status =
          rank.engine().start_send(peer, 0, sent[peer].data(), kBytes, &requests[2 * peer]);
      if (status.ok()) {
        status = rank.engine().start_receive(peer, 0, received[peer].data(), kBytes,
                                             &requests[2 * peer + 1]);
      }
      if (!status.ok()) return text_of(status);
    }
    for (UcxRequest& request : requests) {
      if (const Status status = rank.wait(&request); !status.ok()) return text_of(status);
    }
    for (uint32_t peer = 0; peer < rank.size(); ++peer) {
      if (received[peer] != pattern(kBytes, 16 * peer + rank.rank())) return "wrong bytes";
    }
    return text_of(rank.barrier());
  });
}

TEST_P(UcxMessages, OfOneChannel_ArriveInOrder_WhateverTheirSizes) {
  expect_ok(2, [](UcxRank& rank) -> std::string {
    constexpr uint32_t kCount = 60;
    const auto bytes_of = [](uint32_t i) {
      return pattern(kSizes[i * 7 % std::size(kSizes)] % 300000, i);
    };
    std::vector<UcxRequest> requests(kCount);
    std::vector<std::string> bytes(kCount);
    for (uint32_t i = 0; i < kCount; ++i) {
      bytes[i] = bytes_of(i);
      const uint32_t channel = i % 2;
      if (rank.rank() == 1) std::fill(bytes[i].begin(), bytes[i].end(), 'x');
      const Status status =
          rank.rank() == 0
              ? rank.engine().start_send(1, channel, bytes[i].data(), bytes[i].size(), &requests[i])
              : rank.engine().start_receive(0, channel, bytes[i].data(), bytes[i].size(),
                                            &requests[i]);
      if (!status.ok()) return text_of(status);
      if (i % 8 == 0) rank.engine().progress();
    }
    for (uint32_t i = 0; i < kCount; ++i) {
      if (const Status status = rank.wait(&requests[i]); !status.ok()) return text_of(status);
      if (bytes[i] != bytes_of(i)) return "message " + std::to_string(i) + " is another";
    }
    return text_of(rank.barrier());
  });
}

TEST_P(UcxMessages, BeforeTheirReceive_AreKept) {
  expect_ok(2, [](UcxRank& rank) -> std::string {
    if (rank.rank() == 0) {
      UcxRequest large;
      const std::string bytes = pattern(1 << 20, 3);
      Status status = rank.send(1, 1, "first");
      if (status.ok()) status = rank.engine().start_send(1, 2, bytes.data(), bytes.size(), &large);
      if (status.ok()) status = rank.send(1, 3, "third");
      if (status.ok()) status = rank.wait(&large);
      return text_of(status.ok() ? rank.barrier() : status);
    }
    rank.progress_for_ms(100);
    std::string third(5, ' '), large(1 << 20, ' '), first(5, ' ');
    Status status = rank.receive(0, 3, &third);
    if (status.ok()) status = rank.receive(0, 2, &large);
    if (status.ok()) status = rank.receive(0, 1, &first);
    if (status.ok() && (third != "third" || first != "first" || large != pattern(1 << 20, 3))) {
      return "wrong bytes";
    }
    return text_of(status.ok() ? rank.barrier() : status);
  });
}

struct WrongSize {
  size_t sent_bytes, expected_bytes;
  bool is_early;  // the message is there before its receive
};

TEST_P(UcxMessages, OfAnotherSize_ProtocolErrorWithBothSizes) {
  for (const WrongSize& wrong :
       {WrongSize{100, 50, false}, WrongSize{100, 50, true}, WrongSize{50, 100, false},
        WrongSize{50, 100, true}, WrongSize{1 << 20, 4096, false}, WrongSize{1 << 20, 4096, true},
        WrongSize{4096, 1 << 20, false}, WrongSize{4096, 1 << 20, true},
        WrongSize{20000, 9000, true}, WrongSize{20000, 9000, false}}) {
    const auto lines = run_ucx_ranks(2, GetParam(), [&](UcxRank& rank) -> std::string {
      if (rank.rank() == 0) {
        if (!wrong.is_early) rank.progress_for_ms(30);
        UcxRequest request;
        const std::string bytes = pattern(wrong.sent_bytes, 1);
        Status status = rank.engine().start_send(1, 9, bytes.data(), bytes.size(), &request);
        if (status.ok()) (void)rank.wait(&request);
        return text_of(rank.barrier());
      }
      if (wrong.is_early) rank.progress_for_ms(30);
      // Bytes behind those expected stay as they are.
      std::string bytes(wrong.expected_bytes + 64, 'x');
      UcxRequest request;
      Status status =
          rank.engine().start_receive(0, 9, bytes.data(), wrong.expected_bytes, &request);
      if (status.ok()) status = rank.wait(&request);
      if (bytes.substr(wrong.expected_bytes) != std::string(64, 'x')) return "written behind";
      const Status after = rank.barrier();
      return after.ok() ? text_of(status) : text_of(after);
    });
    EXPECT_EQ(lines[0], "OK");
    const std::string expected = std::to_string(wrong.expected_bytes);
    const std::string begin = "PROTOCOL: rank 1: the message of rank 0 on channel 9 has ";
    const std::string end = " bytes, " + expected + " expected";
    const bool is_longer = wrong.sent_bytes > wrong.expected_bytes;
    EXPECT_TRUE(lines[1] == begin + std::to_string(wrong.sent_bytes) + end ||
                (is_longer && lines[1] == begin + "more than " + expected + end))
        << wrong.sent_bytes << ": " << lines[1];
  }
}

TEST_P(UcxMessages, SleepOnTheEventDescriptor_WakesForEach) {
  expect_ok(2, [](UcxRank& rank) -> std::string {
    constexpr int kMessages = 200;
    const uint32_t peer = 1 - rank.rank();
    int slept = 0;
    for (int i = 0; i < kMessages; ++i) {
      const size_t size_bytes = i % 50 == 49 ? 1 << 20 : 100;
      const std::string sent = pattern(size_bytes, rank.rank() + 2 * static_cast<uint32_t>(i));
      std::string received(size_bytes, 'x');
      UcxRequest send, receive;
      Status status = rank.engine().start_receive(peer, 4, received.data(), size_bytes, &receive);
      if (rank.rank() == static_cast<uint32_t>(i) % 2) usleep(1000);
      if (status.ok()) status = rank.engine().start_send(peer, 4, sent.data(), size_bytes, &send);
      bool is_sent = false, is_received = false;
      while (status.ok() && !(is_sent && is_received)) {
        while (rank.engine().progress()) {
        }
        if (!is_sent) status = rank.engine().test(&send, &is_sent);
        if (status.ok() && !is_received) status = rank.engine().test(&receive, &is_received);
        if (!status.ok() || (is_sent && is_received)) break;
        bool may_sleep = false;
        status = rank.engine().arm(&may_sleep);
        if (!status.ok() || !may_sleep) continue;
        pollfd watched{rank.engine().event_fd(), POLLIN, 0};
        ++slept;
        if (poll(&watched, 1, 10000) != 1) return "no event for message " + std::to_string(i);
      }
      if (!status.ok()) return text_of(status);
      if (received != pattern(size_bytes, peer + 2 * static_cast<uint32_t>(i))) return "bytes";
    }
    if (slept < kMessages / 4) return "slept only " + std::to_string(slept) + " times";
    return text_of(rank.barrier());
  });
}

TEST_P(UcxMessages, ThreadsOneAfterTheOther_MayUseAnEnd) {
  expect_ok(2, [](UcxRank& rank) -> std::string {
    std::string line = "OK";
    for (uint32_t i = 0; i < 5 && line == "OK"; ++i) {
      std::thread([&] {
        const uint32_t peer = 1 - rank.rank();
        const std::string sent = pattern(100000, i);
        std::string received(sent.size(), 'x');
        UcxRequest send;
        Status status = rank.engine().start_send(peer, 0, sent.data(), sent.size(), &send);
        if (status.ok()) status = rank.receive(peer, 0, &received);
        if (status.ok()) status = rank.wait(&send);
        line = status.ok() ? check_received(received, sent) : text_of(status);
      }).join();
    }
    return line == "OK" ? text_of(rank.barrier()) : line;
  });
}

TEST_P(UcxMessages, DestroyedInTheMiddleOfAMessage_ItsMemoryIsFree) {
  const auto lines = run_ucx_ranks(2, GetParam(), [](UcxRank& rank) -> std::string {
    constexpr size_t kLarge = 256 << 20;
    std::string bytes(kLarge, 'x');
    UcxRequest request;
    Status status = rank.rank() == 0
                        ? rank.engine().start_send(1, 2, bytes.data(), kLarge, &request)
                        : rank.engine().start_receive(0, 2, bytes.data(), kLarge, &request);
    if (!status.ok()) return text_of(status);
    if (rank.rank() == 0) {
      (void)rank.wait(&request, 1000);  // its end is the other's death
      rank.destroy();                   // before the request and its bytes
      return "";
    }
    rank.progress_for_ms(20);
    rank.destroy();
    if (request.is_pending()) return "still pending";
    std::fill(bytes.begin(), bytes.end(), 'y');
    usleep(50000);
    return bytes.find('x') == std::string::npos ? "OK" : "written after the end";
  });
  // UCX before 1.14 may end a sender whose peer leaves in the middle (docs/TRANSPORTS.md).
  EXPECT_EQ(lines[1], "OK");
}

TEST_P(UcxMessages, BothDestroyedWithMessagesUnderWay_ProcessesGoOn) {
  const auto lines = run_ucx_ranks(2, GetParam(), [](UcxRank& rank) -> std::string {
    constexpr size_t kLarge = 64 << 20;
    std::string never(1000, 'x'), large = pattern(kLarge, 1), half(kLarge, 'x');
    UcxRequest receive, send, under_way;
    const uint32_t peer = 1 - rank.rank();
    Status status = rank.engine().start_receive(peer, 1, never.data(), never.size(), &receive);
    if (status.ok()) status = rank.engine().start_send(peer, 2, large.data(), kLarge, &send);
    if (status.ok()) status = rank.engine().start_receive(peer, 3, half.data(), kLarge, &under_way);
    if (!status.ok()) return text_of(status);
    rank.progress_for_ms(10);
    usleep(500000);  // none of them progresses when the other leaves
    rank.destroy();
    return receive.is_pending() || send.is_pending() || under_way.is_pending() ? "pending" : "OK";
  });
  EXPECT_EQ(lines, std::vector<std::string>(2, "OK"));
}

INSTANTIATE_TEST_SUITE_P(Wires, UcxMessages, testing::ValuesIn(kWires),
                         [](const auto& info) { return std::string(info.param.name); });

class UcxEnd : public testing::Test {
 protected:
  void SetUp() override { GQ_SKIP_WITHOUT_UCX(); }
};

TEST_F(UcxEnd, DamagedAddress_ProtocolError) {
  const auto lines = run_ucx_ranks(1, kWires[0], [](UcxRank& rank) -> std::string {
    const PostedAddress& posted = rank.posted(0);
    std::unique_ptr<UcxEngine> end;
    if (const Status status = UcxEngine::open(library_under_test(), 1, 2, &end); !status.ok()) {
      return text_of(status);
    }
    std::string problems;
    const uint32_t size_bytes = posted.size_bytes;
    for (uint32_t i = 0; i < size_bytes; ++i) {
      std::vector<unsigned char> damaged(posted.bytes, posted.bytes + size_bytes);
      damaged[i] ^= 1 << (i % 8);
      const Status status = end->connect(0, damaged.data(), damaged.size());
      if (status.code() != GQSGD_PROTOCOL) problems += " byte " + std::to_string(i);
    }
    for (uint32_t i = 0; i < size_bytes; ++i) {
      const Status status = end->connect(0, posted.bytes, i);
      if (status.code() != GQSGD_PROTOCOL) problems += " size " + std::to_string(i);
    }
    if (end->connect(1, posted.bytes, size_bytes).code() != GQSGD_PROTOCOL) problems += " rank";
    if (!problems.empty()) return problems;
    return text_of(end->connect(0, posted.bytes, size_bytes));
  });
  EXPECT_EQ(lines[0], "OK");
}

TEST_F(UcxEnd, Transports_AreNamed) {
  const auto lines = run_ucx_ranks(2, kWires[1], [](UcxRank& rank) -> std::string {
    const Status status = rank.barrier();
    return rank.engine().transports_to(1 - rank.rank()) + " " + rank.engine().version() + " " +
           text_of(status);
  });
  for (const std::string& line : lines) {
    EXPECT_EQ(line.rfind("tcp/", 0), 0u) << line;
    EXPECT_TRUE(contains(line, " UCX 1.") && contains(line, "libucp.so")) << line;
    EXPECT_TRUE(contains(line, " OK")) << line;
  }
}

TEST_F(UcxEnd, RanksOfOneHost_ShareMemory) {
  const auto lines = run_ucx_ranks(2, kWires[0], [](UcxRank& rank) -> std::string {
    const Status status = rank.barrier();
    return rank.engine().transports_to(1 - rank.rank()) + " " + text_of(status);
  });
  for (const std::string& line : lines) {
    EXPECT_TRUE(contains(line, "sysv/") || contains(line, "posix/")) << line;
    EXPECT_TRUE(contains(line, " OK")) << line;
  }
}

TEST_F(UcxEnd, InAChild_DestructorDoesNothing) {
  const auto lines = run_ucx_ranks(2, kWires[1], [](UcxRank& rank) -> std::string {
    if (const Status status = rank.barrier(); !status.ok()) return text_of(status);
    if (rank.rank() == 0) {
      Child child([&rank] {
        rank.destroy();
        return std::string("OK");
      });
      if (const std::string line = child.line(); line != "OK") return "child: " + line;
    }
    return text_of(rank.barrier());
  });
  EXPECT_EQ(lines, std::vector<std::string>(2, "OK"));
}

}  // namespace
}  // namespace gq::test
