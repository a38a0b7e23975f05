// Groups over NCCL whose ranks are threads of this process, with a GPU each or all on one: which of
// them a machine can have, their calls, and a limit for those that hang.
#ifndef GQ_TESTS_GPU_NCCL_RANKS_H
#define GQ_TESTS_GPU_NCCL_RANKS_H

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/gpu/allreduce_call.h"

namespace gq::test {

// Of 2.30.0: earlier ones refuse a second rank on a GPU.
inline constexpr int kSharedGpuVersion = 23000;
inline constexpr int kNcclRanksMax = 8;

struct NcclRanks {
  int ranks_max = kNcclRanksMax;
  int gpu_count = 1;
  int version = 0;      ///< of NCCL
  std::string options;  ///< of communicators, beside their timeout
  int timeout_ms = 20000;
  int missing_ms = 2000;  ///< that one rank waits for a second one, which is missing
  /** A group that takes longer hangs where no timeout helps: in NCCL or CUDA itself. */
  int limit_ms = 60000;
  std::vector<std::string> formats = {"paper-gl8", "paper-ge8", "paper-gl4",  "paper-ge4",
                                      "none",      "blocks-8",  "relative-8", "rotated-4-8",
                                      "adaptive-4", "rice-4"};
  size_t value_count = 70001;
  int sharing_replays_max = kNcclRanksMax;  ///< more ranks on one GPU replay no graph
  std::function<std::unique_ptr<StreamGraph>()> make_graph;
  std::function<void(const std::string& line)> say;
  /** Called with a sentence when the limit has passed, on a thread of its own: it ends the program,
   *  because a thread cannot be ended. */
  std::function<void(const std::string& sentence)> give_up;
};

/** Checks groups of 1 to ranks_max ranks, as far as there can be such, then groups that end early,
 *  and says a line about each; one that fails is the last. False if one failed. */
bool check_nccl_ranks(const NcclRanks& setting);

}  // namespace gq::test

#endif
