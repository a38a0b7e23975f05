// Ranks over this machine's NCCL, with a GPU each or all on one: the bits of virtual ranks.
//   PROGRAM [RANKS [SECONDS]]   groups of 1 to RANKS ranks, 8 if not given, with SECONDS for each
//   Status 1: a group failed, or hung; 77: there is no device or no NCCL.
#include <cuda_runtime_api.h>
#include <gqsgd_nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/transport/nccl/nccl_library.h"
#include "tests/gpu/cuda_call.h"
#include "tests/gpu/cuda_graph.h"
#include "tests/gpu/nccl_ranks.h"

namespace gq::test {
namespace {

void say(const std::string& line) {
  printf("%s\n", line.c_str());
  fflush(stdout);
}

/** Ranks of one GPU share its processors: each must leave some to the others. They share a context
 *  as well: the first launch of a kernel loads it, holds the context's lock and waits for what is
 *  enqueued, which may be a message that another rank cannot send without the lock. And they share
 *  the queues of its streams, 8 if no other number is set: two ranks in one would wait in turn. */
void let_ranks_share_a_gpu() {
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
  setenv("NCCL_MAX_CTAS", "4", 0);
  setenv("NCCL_DEBUG", "WARN", 0);
  setenv("NCCL_RAS_ENABLE", "0", 0);
}

/** Of ranks that share a GPU. Four hung in their replays with NCCL 2.32, whose manual supports no
 *  such ranks; their other calls did not. */
constexpr int kReplaysMax = 3;

int run(int ranks_max, int limit_s) {
  let_ranks_share_a_gpu();
  const char* reason = "";
  if (process_device(&reason) == nullptr) {
    printf("skipped: no device: %s\n", reason);
    return 77;
  }
  const NcclLibrary* library = nullptr;
  if (const Status opened = open_nccl("", NcclSearch::any, &library); !opened.ok()) {
    printf("skipped: %s\n", opened.sentence());
    return 77;
  }
  NcclRanks setting;
  done(cudaGetDeviceCount(&setting.gpu_count));
  setting.version = library->version;
  setting.ranks_max = ranks_max;
  setting.limit_ms = 1000 * limit_s;
  setting.sharing_replays_max = kReplaysMax;
  setting.make_graph = [] { return std::make_unique<CudaGraph>(); };
  setting.say = say;
  setting.give_up = [](const std::string& sentence) {
    say("FAILED  " + sentence);
    _exit(1);
  };
  say(std::string(library->path) + ", version number " + std::to_string(library->version));
  return check_nccl_ranks(setting) ? 0 : 1;
}

}  // namespace
}  // namespace gq::test

int main(int argc, char** argv) {
  const int ranks_max = argc > 1 ? atoi(argv[1]) : gq::test::kNcclRanksMax;
  const int limit_s = argc > 2 ? atoi(argv[2]) : 60;
  if (ranks_max >= 1 && ranks_max <= gq::test::kNcclRanksMax && limit_s >= 1) {
    return gq::test::run(ranks_max, limit_s);
  }
  printf("usage: gpu_nccl [RANKS [SECONDS]], RANKS 1 to %d\n", gq::test::kNcclRanksMax);
  return 1;
}
