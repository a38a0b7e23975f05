// A connection of UCX that ends while both ranks and all other connections live.
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <utility>

#include "tests/api/faults/support/call.h"
#include "tests/api/faults/support/call_until_failure.h"
#include "tests/api/network/network_ranks.h"
#include "tests/support/shared_memory.h"

namespace gq::test {
namespace {

constexpr int kRanks = 4;
constexpr int kVictim = 2;
constexpr size_t kPaths = 4;

/** Ends one of the connections by which UCX reaches a rank, as a firewall does by a reset. They
 *  have one port in common, that of the rank which listened; others have none so often. */
void cut_one_path() {
  std::multimap<std::pair<uint16_t, uint16_t>, int> by_port;  // (own, 0) or (0, the peer's)
  for (int number = 0; number < 256; ++number) {
    sockaddr_in own{}, peer{};
    socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
    if (getsockname(number, reinterpret_cast<sockaddr*>(&own), &own_bytes) != 0 ||
        getpeername(number, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0) {
      continue;
    }
    by_port.insert({{own.sin_port, 0}, number});
    by_port.insert({{0, peer.sin_port}, number});
  }
  for (const auto& [port, number] : by_port) {
    if (by_port.count(port) < kPaths) continue;
    shutdown(number, SHUT_RDWR);
    return;
  }
}

TEST(NetworkCut, OnePathWhileAllWait_PeerLostLongBeforeTheTimeout) {
  GQ_SKIP_WITHOUT_NETWORK();
  setenv("UCX_TLS", "tcp,self", 1);
  SharedArray<uint64_t> times_us(kRanks);
  RankProcesses ranks(
      kRanks, "timeout_ms=20000,paths=4",
      [&](int rank, gqsgd_comm comm) -> std::string {
        if (const Outcome first = Call(rank).make(comm); first.status != GQSGD_OK) {
          return first.text();
        }
        if (rank == kVictim) {
          usleep(200000);  // the others wait in a call, and have nothing to send
          times_us[kVictim] = now_us();
          cut_one_path();
          usleep(4000000);
        }
        const Outcome second = Call(rank).make(comm);
        if (rank != kVictim) times_us[static_cast<size_t>(rank)] = now_us();
        return second.text();
      },
      network_maker());
  const auto lines = ranks.wait_each();
  unsetenv("UCX_TLS");
  for (size_t rank = 0; rank < kRanks; ++rank) {
    const char* expected = rank == kVictim ? "REVOKED: rank [0-9] gave up on rank 2"
                                           : "PEER_LOST: rank 2 has died or gone away";
    EXPECT_TRUE(found(lines[rank], expected)) << "rank " << rank;
    if (rank == kVictim) continue;
    EXPECT_LT(times_us[rank], times_us[kVictim] + 3500000) << "rank " << rank;
  }
}

}  // namespace
}  // namespace gq::test
