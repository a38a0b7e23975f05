// What a monitor sees of a communicator: all counters, from a thread of its own, again and again.
#ifndef GQ_TESTS_SUPPORT_MONITOR_H
#define GQ_TESTS_SUPPORT_MONITOR_H

#include <gqsgd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "tests/support/ranks.h"

namespace gq::test {

/** The names of gqsgd_comm_stat; equal calls add equally to the first kExactStats. */
inline constexpr const char* kStatNames[] = {"calls",
                                             "messages_sent",
                                             "payload_bytes_sent",
                                             "header_bytes_sent",
                                             "payload_bytes_copied",
                                             "nonfinite_blocks",
                                             "native_float_calls",
                                             "uncompressed_bytes_sent",
                                             "workspace_bytes",
                                             "wait_ns"};
inline constexpr size_t kExactStats = 8;
using Stats = std::array<uint64_t, std::size(kStatNames)>;

/** "" or what is wrong; an entry that could not be had stays. */
inline std::string read_stats(gqsgd_comm comm, Stats* stats) {
  for (size_t k = 0; k < stats->size(); ++k) {
    const gqsgd_status status = gqsgd_comm_stat(comm, kStatNames[k], &(*stats)[k]);
    if (status != GQSGD_OK) return failure_of(status, kStatNames[k]);
  }
  return "";
}

class Monitor {
 public:
  explicit Monitor(gqsgd_comm comm) : thread_([=, this] { watch(comm); }) {}
  ~Monitor() { end(); }
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /** "", or that there was no answer, or a counter that had become less. */
  std::string end() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return wrong_;
  }

 private:
  void watch(gqsgd_comm comm) {
    Stats before{};
    while (!stop_ && wrong_.empty()) {
      Stats now{};
      wrong_ = read_stats(comm, &now);
      for (size_t k = 0; k < now.size() && wrong_.empty(); ++k) {
        if (now[k] >= before[k]) continue;
        wrong_ = std::string(kStatNames[k]) + " was " + std::to_string(before[k]) + " and is " +
                 std::to_string(now[k]);
      }
      before = now;
    }
  }

  std::atomic<bool> stop_{false};
  std::string wrong_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace gq::test

#endif
