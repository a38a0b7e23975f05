// Connections to UCX's TCP ports that no rank made: bytes at random, nothing, half a message,
// hundreds of them. Messages between the ranks arrive all the same.
#include <arpa/inet.h>
#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

#include "tests/unit/transport/exchange.h"
#include "tests/unit/transport/process_group.h"
#include "tests/unit/transport/ucx/ucx_ranks.h"

namespace gq::test {
namespace {

constexpr size_t kListenersMax = 32;
constexpr uint32_t kConnections = 200;
constexpr Wire kTcp = kWires[1];

/** A socket that listens, in the byte order of the network. */
struct ListeningSocket {
  in_addr_t address;
  in_port_t port;
};

enum class Flooder {
  is_mute,    // sends nothing and stays
  babbles,    // sends bytes at random and stays
  is_cut_off  // sends few bytes and closes
};

struct FloodState {
  ListeningSocket listeners[kListenersMax];
  std::atomic<uint32_t> listener_count;
  std::atomic<uint32_t> connected;
  std::atomic<bool> has_flooded;
};

/** The numbers of this process's sockets in the file system of sockets. */
std::set<std::string> own_sockets() {
  std::set<std::string> numbers;
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    char target[64];
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    const ssize_t count = readlink(path.c_str(), target, sizeof target);
    const std::string name(target, count > 0 ? static_cast<size_t>(count) : 0);
    if (name.rfind("socket:[", 0) == 0) numbers.insert(name.substr(8, name.size() - 9));
  }
  closedir(folder);
  return numbers;
}

/** Where this process listens for TCP, by IPv4. */
void find_listeners(FloodState* state) {
  const std::set<std::string> own = own_sockets();
  std::ifstream table("/proc/self/net/tcp");
  std::string line;
  std::getline(table, line);  // the names of the columns
  uint32_t count = 0;
  while (std::getline(table, line) && count < kListenersMax) {
    std::istringstream stream(line);
    std::vector<std::string> fields;
    for (std::string field; stream >> field;) fields.push_back(field);
    if (fields.size() < 10 || fields[3] != "0A" || own.count(fields[9]) == 0) continue;
    const std::string& local = fields[1];  // 0100007F:1F90
    state->listeners[count++] = {
        static_cast<in_addr_t>(strtoul(local.substr(0, 8).c_str(), nullptr, 16)),
        htons(static_cast<in_port_t>(strtoul(local.substr(9).c_str(), nullptr, 16)))};
  }
  state->listener_count = count;
}

/** Whether a connection was made; it has sent what its kind sends. */
bool connect_as(Flooder kind, const ListeningSocket& listener, uint32_t seed) {
  const int number = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = listener.address;
  address.sin_port = listener.port;
  if (connect(number, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(number);
    return false;
  }
  const std::string bytes = pattern(kind == Flooder::babbles ? 3000 : 3, seed);
  if (kind != Flooder::is_mute) send(number, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (kind == Flooder::is_cut_off) close(number);
  return true;
}

/** Makes its connections and keeps those that stay. */
std::string flood(Flooder kind, FloodState& state) {
  while (state.listener_count == 0) usleep(1000);
  for (uint32_t i = 0; i < kConnections; ++i) {
    state.connected += connect_as(kind, state.listeners[i % state.listener_count], i);
  }
  state.has_flooded = true;
  for (;;) pause();
}

Status exchange_one(UcxRank& rank, uint32_t seed) {
  const uint32_t peer = 1 - rank.rank();
  const std::string sent = pattern(1 + seed * 997 % 100000, seed);
  std::string received(sent.size(), 'x');
  UcxRequest send;
  GQ_TRY(rank.engine().start_send(peer, 0, sent.data(), sent.size(), &send));
  GQ_TRY(rank.receive(peer, 0, &received));
  GQ_TRY(rank.wait(&send));
  return received == sent ? Status() : fail(GQSGD_INTERNAL, "wrong bytes");
}

class UcxFlood : public testing::TestWithParam<Flooder> {
 protected:
  void SetUp() override { GQ_SKIP_WITHOUT_UCX(); }
};

TEST_P(UcxFlood, DuringTraffic_MessagesArrive) {
  SharedArray<FloodState> state(1);
  Child flooder([&] { return flood(GetParam(), state[0]); });
  const auto lines = run_ucx_ranks(2, kTcp, [&](UcxRank& rank) -> std::string {
    Status status = rank.barrier();
    if (rank.rank() == 0) find_listeners(&state[0]);
    uint32_t after = 0;
    for (uint32_t i = 0; status.ok() && after < 100; ++i) {
      // Both must exchange as often: rank 0 decides.
      status = exchange_one(rank, i);
      std::string is_over(1, state[0].has_flooded ? 'y' : 'n');
      if (status.ok())
        status = rank.rank() == 0 ? rank.send(1, 1, is_over) : rank.receive(0, 1, &is_over);
      after += is_over == "y";
    }
    return status.ok() ? text_of(rank.barrier()) : text_of(status);
  });
  EXPECT_EQ(lines, std::vector<std::string>(2, "OK"));
  EXPECT_EQ(state[0].connected, kConnections);
}

TEST_P(UcxFlood, BeforeRanksConnect_TheyConnect) {
  SharedArray<FloodState> state(1);
  Child flooder([&] { return flood(GetParam(), state[0]); });
  SharedArray<PostedAddress> addresses(2);
  const auto body = [&](uint32_t number) -> std::string {
    setenv("UCX_TLS", kTcp.tls, 1);
    UcxRank rank(number, addresses.data(), 2);
    if (number == 1) {
      while (!state[0].has_flooded) usleep(1000);
    }
    Status status = rank.open();
    if (status.ok() && number == 0) find_listeners(&state[0]);
    if (status.ok()) status = rank.connect();
    for (uint32_t i = 0; status.ok() && i < 50; ++i) status = exchange_one(rank, i);
    return status.ok() ? text_of(rank.barrier()) : text_of(status);
  };
  Child one([&] { return body(0); });
  Child other([&] { return body(1); });
  EXPECT_EQ(one.line(), "OK");
  EXPECT_EQ(other.line(), "OK");
  EXPECT_EQ(state[0].connected, kConnections);
}

std::string name_of(const testing::TestParamInfo<Flooder>& info) {
  const char* const names[] = {"Mute", "Babbling", "CutOff"};
  return names[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Kinds, UcxFlood,
                         testing::Values(Flooder::is_mute, Flooder::babbles, Flooder::is_cut_off),
                         name_of);

}  // namespace
}  // namespace gq::test
