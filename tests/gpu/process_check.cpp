// Processes on GPUs, each on one of its own if there are enough: the bits of virtual ranks, whether
// they open each other's memory or words go through host memory, and deaths that are reported in
// time. A program without GoogleTest, because no process may have used the device before ranks are
// forked.
//   PROGRAM [--fused] [RANKS..]   groups of so many ranks, 1 2 3 5 8 if none is given
//   --fused: it is a failure if the calls that can be are not one kernel of each rank
//   Status 1: a rank failed, 77: there is no device.
#include <gqsgd_log.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "src/gpu/device/device.h"
#include "tests/gpu/allreduce_call.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr char kNoDevice[] = "no device: ";

std::string find_device() {
  const char* reason = "";
  return process_device(&reason) == nullptr ? std::string(kNoDevice) + reason : "";
}

/** The way that words go, for all ranks of a run. */
enum class Way { free, through_host };

const char* name_of(Way way) {
  return way == Way::free ? "directly where they can" : "through host memory";
}

bool must_be_fused = false;

/** In a rank's own process. */
void force(int rank, Way way) {
  (void)process_device(nullptr)->set_current(rank).ok();  // else all have the first
  if (way == Way::free) return;
  static Device alone;
  alone = *process_device(nullptr);
  alone.ipc = nullptr;
  use_device(&alone);
}

/** Prints what hosts say about the way of calls; *fused: whether one kernel makes a whole one. */
void print_log(bool* fused) {
  gqsgd_set_log(
      GQSGD_LOG_INFO,
      [](void* seen, gqsgd_log_level level, const char* line) {
        const bool has_kernel = strstr(line, "one kernel of each rank") != nullptr;
        *static_cast<bool*>(seen) |= has_kernel;
        if (level == GQSGD_LOG_INFO && !has_kernel && strstr(line, "by stages") == nullptr) return;
        printf("%s\n", line);
        fflush(stdout);
      },
      fused);
}

bool report(const std::string& failures, int ranks, const char* what, Way way) {
  printf("%-6s %d processes, %s, %s\n%s", failures.empty() ? "ok" : "FAILED", ranks, name_of(way),
         what, failures.c_str());
  fflush(stdout);
  return failures.empty();
}

/** Calls that need ever more workspace, so that memory which peers have open is replaced. */
bool check_bits(int ranks, const char* options, Way way, const std::vector<DeviceCalls>& all) {
  const bool in_chunks = strstr(options, "chunk_value_count") != nullptr;  // which kernels are not
  return report(run_processes(ranks, options,
                              [&](int rank, gqsgd_comm comm) {
                                bool fused = way == Way::through_host || ranks == 1 || in_chunks;
                                force(rank, way);
                                print_log(&fused);
                                std::string failure;
                                for (const DeviceCalls& calls : all) {
                                  failure += calls.make_and_compare(rank, comm);
                                }
                                gqsgd_set_log(GQSGD_LOG_NONE, nullptr, nullptr);
                                if (must_be_fused && !fused) failure += "no fused kernels\n";
                                return failure;
                              }),
                ranks, options, way);
}

/** Rank 1 dies while it makes calls. */
bool check_death(Way way) {
  const DeviceCalls calls(3, {"paper-gl8"}, 70001);
  const SharedArray<std::atomic<int>> made(1);
  RankProcesses ranks(3, "timeout_ms=60000", [&](int rank, gqsgd_comm comm) {
    force(rank, way);
    while (calls.make_and_compare(rank, comm).empty()) made[0] += rank == 1 ? 1 : 0;
    return std::string(gqsgd_status_name(gqsgd_comm_status(comm)));
  });
  for (int k = 0; k < 30000 && made[0] < 10; ++k) usleep(1000);
  kill(ranks.pid(1), SIGKILL);
  const std::vector<std::string> said = ranks.wait_each();
  std::string failures;
  for (const size_t rank : {0, 2}) {
    if (said[rank] != "PEER_LOST")
      failures += "rank " + std::to_string(rank) + ": " + said[rank] + "\n";
  }
  return report(failures, 3, "one of which is killed", way);
}

int run(const std::vector<int>& sizes) {
  const std::string missing = run_processes(1, "", [](int, gqsgd_comm) { return find_device(); });
  if (!missing.empty()) {
    printf("skipped: %s", missing.c_str());
    return missing.find(kNoDevice) == std::string::npos ? 1 : 77;
  }
  for (const int ranks : sizes) {
    std::vector<DeviceCalls> all;
    all.emplace_back(ranks, std::vector<std::string>{"paper-gl8", "paper-ge4", "blocks-8", "none",
                                              "adaptive-4", "rice-4"},
                     size_t{70001});
    all.push_back(ListCalls(ranks, {"blocks-8"}, {1000, 0, 33, 20000, 1}));
    if (ranks == 3) {
      for (const size_t value_count : {1500001, 10, 4000001, 1000}) {
        all.emplace_back(ranks, std::vector<std::string>{"paper-gl8"}, value_count);
      }
    }
    for (const char* options : {"timeout_ms=60000", "timeout_ms=60000,chunk_value_count=8192"}) {
      for (const Way way : {Way::free, Way::through_host}) {
        if (way == Way::through_host && ranks != 3) continue;
        if (!check_bits(ranks, options, way, all)) return 1;
      }
    }
  }
  return check_death(Way::free) && check_death(Way::through_host) ? 0 : 1;
}

}  // namespace
}  // namespace gq::test

int main(int argc, char** argv) {
  std::vector<int> sizes;
  for (int k = 1; k < argc; ++k) {
    if (strcmp(argv[k], "--fused") == 0) {
      gq::test::must_be_fused = true;
    } else {
      sizes.push_back(atoi(argv[k]));
    }
  }
  return gq::test::run(sizes.empty() ? std::vector<int>{1, 2, 3, 5, 8} : sizes);
}
