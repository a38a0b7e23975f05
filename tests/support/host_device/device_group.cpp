// Threads for ranks.
#include "tests/support/host_device/device_group.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>

namespace gq::test {

DeviceGroup::~DeviceGroup() {
  // In threads: where calls are under way one end waits for the other.
  run([this](int rank, gqsgd_comm) {
    destroy(rank);
    return std::string();
  });
}

void DeviceGroup::destroy(int rank) {
  gqsgd_comm& comm = comms_[static_cast<size_t>(rank)];
  EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
  comm = nullptr;
}

std::string DeviceGroup::run(
    const std::function<std::string(int rank, gqsgd_comm comm)>& body) const {
  std::mutex mutex;
  std::string lines;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size(); ++rank) {
    threads.emplace_back([&, rank] {
      const std::string said = body(rank, comm(rank));
      const std::lock_guard<std::mutex> lock(mutex);
      if (!said.empty()) lines += "rank " + std::to_string(rank) + ": " + said + "\n";
    });
  }
  for (std::thread& thread : threads) thread.join();
  return lines;
}

}  // namespace gq::test
