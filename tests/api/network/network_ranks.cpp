// The id travels through memory that the processes share.
#include "tests/api/network/network_ranks.h"

#include <gqsgd_network.h>
#include <unistd.h>

#include <atomic>
#include <memory>

namespace gq::test {
namespace {

struct PostedId {
  gqsgd_unique_id id;
  std::atomic<uint32_t> is_there;
};

constexpr int kWaitSteps = 60000;  // of a millisecond

}  // namespace

CommMaker network_maker(const std::vector<std::string>& hosts) {
  const auto shared = std::make_shared<SharedArray<PostedId>>(1);
  return [shared, hosts](int rank, int size, const char* options, gqsgd_comm* comm) {
    PostedId& posted = (*shared)[0];
    if (rank == 0) {
      const gqsgd_status made = gqsgd_network_id_create("address=127.0.0.1", &posted.id);
      if (made != GQSGD_OK) return made;
      posted.is_there = 1;
    }
    for (int step = 0; posted.is_there == 0 && step < kWaitSteps; ++step) usleep(1000);
    std::string all = options;
    if (!hosts.empty()) {
      all += (all.empty() ? "host_id=" : ",host_id=") + hosts[static_cast<size_t>(rank)];
    }
    return gqsgd_comm_create_network(&posted.id, rank, size, all.c_str(), comm);
  };
}

std::string why_no_network() {
  RankProcesses alone(
      1, "", [](int, gqsgd_comm) { return std::string(); }, network_maker());
  const std::string line = alone.wait_each()[0];
  return line.find("UNSUPPORTED") != std::string::npos ? line : "";
}

}  // namespace gq::test
