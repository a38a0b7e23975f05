// Ranks of fused allreduces without a device: a thread for each block, and memory that they keep
// from call to call.
#ifndef GQ_TESTS_GPU_FUSED_FUSED_RANKS_H
#define GQ_TESTS_GPU_FUSED_FUSED_RANKS_H

#include <string.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/host_device/host_fused.h"
#include "tests/support/operation.h"

namespace gq::test {

struct RankBuffers {
  RankBuffers() {
    memset(static_cast<void*>(memory.get()), 0xEE, sizeof(FusedBuffers));  // its contents are
                                                                           // unspecified
    memset(static_cast<void*>(&memory->control), 0, sizeof(FusedControl));
  }
  FusedControl& control() { return memory->control; }

  std::unique_ptr<FusedBuffers> memory{new FusedBuffers};
  uint64_t leave = 0;
  uint32_t step_at[2] = {};  ///< of calls whose step is in memory of the device
  Disagreement found = {};
};

inline constexpr uint32_t kStatusWord = 1, kStepWord = 10, kIndexWord = 11;

FusedRequest request_of(const Operation& call, size_t value_count, Disagreement* found);

/** Ranks that keep their memory from call to call, as those of a group do. */
class FusedRanks {
 public:
  FusedRanks(uint32_t ranks, uint32_t block_count, uint32_t calls_before = 0)
      : buffers_(ranks), block_count_(block_count) {
    for (RankBuffers& buffers : buffers_) buffers.control().calls = calls_before;
  }

  uint32_t size() const { return static_cast<uint32_t>(buffers_.size()); }
  RankBuffers& buffers(uint32_t rank) { return buffers_[rank]; }
  void wait_for(uint64_t timeout_ns) { timeout_ns_ = timeout_ns; }

  FusedArgs args(const Operation& call, uint32_t rank, const Values& input, Values* result);

 private:
  /** As a host does: each tensor begins where values are aligned. */
  void place_segments(const Operation& call, uint64_t alignment, uint32_t rank,
                      const Values& input, Values* result, FusedArgs* args);

  std::vector<RankBuffers> buffers_;
  uint32_t block_count_;
  uint64_t timeout_ns_ = UINT64_MAX;
};

/** Rests of up to a millisecond, others for each seed, block and stage. */
Delay disorder_of(uint64_t seed);

/** One call after the other, without anything between them but what kernels wait for: "" or the
 *  first difference to virtual ranks. */
std::string make_calls(FusedRanks* ranks, const std::vector<Operation>& calls,
                       const std::vector<size_t>& value_counts, bool disorder,
                       const std::vector<float>& factors = {});

/** Of these formats in turn, in place and not, with steps of the host's and of the device's. */
std::vector<Operation> calls_of(const std::vector<std::string>& formats, size_t count);

}  // namespace gq::test

#endif
