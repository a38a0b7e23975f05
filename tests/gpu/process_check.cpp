// Processes of one GPU, whose words go through host memory: the bits of virtual ranks. A program
// without GoogleTest, because nobody may have asked for the device before ranks are forked.
//   Status 1: a rank failed, 77: there is no device.
#include <stdio.h>

#include "src/device/device.h"
#include "tests/gpu/allreduce_call.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr char kNoDevice[] = "no device: ";

std::string find_device() {
  const char* reason = "";
  return process_device(&reason) == nullptr ? std::string(kNoDevice) + reason : "";
}

int run() {
  const std::string missing = run_processes(1, "", [](int, gqsgd_comm) { return find_device(); });
  if (!missing.empty()) {
    printf("skipped: %s", missing.c_str());
    return missing.find(kNoDevice) == std::string::npos ? 1 : 77;
  }
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const DeviceCalls calls(ranks, {"paper-gl8", "paper-ge4", "blocks-8", "none"}, 70001);
    for (const char* options : {"timeout_ms=60000", "timeout_ms=60000,chunk_value_count=8192"}) {
      const std::string failures = run_processes(ranks, options, [&](int rank, gqsgd_comm comm) {
        return calls.make_and_compare(rank, comm);
      });
      printf("%-6s %d processes, %s\n%s", failures.empty() ? "ok" : "FAILED", ranks, options,
             failures.c_str());
      fflush(stdout);
      if (!failures.empty()) return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace gq::test

int main() { return gq::test::run(); }
