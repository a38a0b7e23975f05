// Processes that connect to rank 0's listener without end, while a group forms: they delay neither
// its deadline nor its ranks.
#include <gtest/gtest.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <deque>

#include "src/support/clock.h"
#include "src/transport/bootstrap/unique_id.h"
#include "tests/support/sanitized.h"
#include "tests/unit/transport/process_group.h"

namespace gq::test {
namespace {

constexpr int kFlooders = 4;
constexpr int kTimeoutMs = 1000 * kTimeFactor;  // of rank 0; rank 1 comes in that time
// A flood ends by itself, so that a rank 0 that heeds nothing else fails its test soon.
constexpr int64_t kFloodMs = 20000;
constexpr uid_t kAnotherUser = 65534;

enum class Flooder {
  closes,   // at once
  waits,    // closes at once, and waits in the kernel where the listener's queue is full
  is_mute,  // keeps its last connections open and sends nothing
  babbles,  // sends bytes that are no packet of the bootstrap
};

struct Address {
  sockaddr_un name{};
  socklen_t size_bytes = 0;

  explicit Address(const gqsgd_unique_id& bytes) {
    UniqueId id{};
    EXPECT_EQ(text_of(read_unique_id(bytes, &id)), "OK");
    name.sun_family = AF_UNIX;
    std::string text = "gqsgd-";
    for (const unsigned char byte : id.name) {
      char digits[3];
      snprintf(digits, sizeof digits, "%02x", byte);
      text += digits;
    }
    text.copy(name.sun_path + 1, text.size());
    size_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
};

/** A connection, or -1: no listener, or no place in its queue. */
int connect_once(const Address& address, bool waits) {
  const int socket_number = socket(AF_UNIX, SOCK_SEQPACKET | (waits ? 0 : SOCK_NONBLOCK), 0);
  const auto* name = reinterpret_cast<const sockaddr*>(&address.name);
  if (connect(socket_number, name, address.size_bytes) == 0) return socket_number;
  close(socket_number);
  return -1;
}

/** Connects until kFloodMs have passed; signals `begun` when it has got through once. */
std::string flood(const Address& address, Flooder kind, bool as_another_user, Signal& begun) {
  if (as_another_user && setresuid(kAnotherUser, kAnotherUser, kAnotherUser) != 0) return "setuid";
  const std::string junk(60, 'j');
  std::deque<int> open;
  bool has_begun = false;
  for (const uint64_t end_us = deadline_after_ms(kFloodMs); monotonic_us() < end_us;) {
    const int number = connect_once(address, kind == Flooder::waits);
    if (number < 0) continue;
    if (!has_begun) begun.send();
    has_begun = true;
    if (kind == Flooder::babbles) send(number, junk.data(), junk.size(), MSG_NOSIGNAL);
    open.push_back(number);
    if (kind == Flooder::is_mute && open.size() < 100) continue;
    close(open.front());
    open.pop_front();
  }
  return "ended";
}

struct Flood {
  std::vector<Child> children;

  /** Returns when every flooder has connected. */
  Flood(const gqsgd_unique_id& id, Flooder kind, bool as_another_user) {
    Signal begun;
    const Address address(id);
    for (int i = 0; i < kFlooders; ++i) {
      children.emplace_back([&, kind] { return flood(address, kind, as_another_user, begun); });
    }
    for (int i = 0; i < kFlooders; ++i) EXPECT_TRUE(begun.wait());
  }
};

void expect_timeout_in_time(Flooder kind, bool as_another_user) {
  const gqsgd_unique_id id = fresh_id();
  const uint64_t begin_us = monotonic_us();
  std::vector<Child> ranks;
  ranks.push_back(join(
      id, 0, 3, [](HostTransport&) { return "joined"; }, kTimeoutMs));
  const Flood flood(id, kind, as_another_user);
  ranks.push_back(join(
      id, 1, 3, [](HostTransport&) { return "joined"; }, 60000));
  for (const std::string& line : lines_of(ranks)) {
    EXPECT_TRUE(contains(line, "TIMEOUT: missing ranks: 2; 1 of 3")) << line;
  }
  // The timeout; the rest is for processors that others use.
  EXPECT_LT((monotonic_us() - begin_us) / 1000, uint64_t{10 * kTimeoutMs});
}

void expect_group(Flooder kind, bool as_another_user) {
  const gqsgd_unique_id id = fresh_id();
  const RankBody body = [](HostTransport& transport) { return text_of(exchange(transport, 1)); };
  std::vector<Child> ranks;
  ranks.push_back(join(id, 0, 4, body));
  const Flood flood(id, kind, as_another_user);
  const uint64_t begin_us = monotonic_us();
  for (uint32_t rank = 1; rank < 4; ++rank) ranks.push_back(join(id, rank, 4, body));
  EXPECT_EQ(lines_of(ranks), std::vector<std::string>(4, "OK"));
  EXPECT_LT((monotonic_us() - begin_us) / 1000, 10000u);
}

class ConnectionFlood : public testing::TestWithParam<Flooder> {};

TEST_P(ConnectionFlood, MissingRank_TimeoutInTime) { expect_timeout_in_time(GetParam(), false); }

TEST_P(ConnectionFlood, AllRanks_GroupForms) { expect_group(GetParam(), false); }

// Needs the right to become another user; where there is none, the same user's flood is as fast.
TEST_P(ConnectionFlood, OfAnotherUser_MissingRank_TimeoutInTime) {
  expect_timeout_in_time(GetParam(), geteuid() == 0);
}

TEST_P(ConnectionFlood, OfAnotherUser_GroupForms) { expect_group(GetParam(), geteuid() == 0); }

std::string name_of(const testing::TestParamInfo<Flooder>& info) {
  const char* const names[] = {"Closing", "Waiting", "Mute", "Babbling"};
  return names[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Kinds, ConnectionFlood,
                         testing::Values(Flooder::closes, Flooder::waits, Flooder::is_mute,
                                         Flooder::babbles),
                         name_of);

}  // namespace
}  // namespace gq::test
