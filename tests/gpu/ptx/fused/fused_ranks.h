// Ranks of fused allreduces: memory that they keep from call to call, and calls whose kernels run
// concurrently (tests/gpu/ptx/concurrent/concurrent.h).
#ifndef GQ_TESTS_GPU_PTX_FUSED_FUSED_RANKS_H
#define GQ_TESTS_GPU_PTX_FUSED_FUSED_RANKS_H

#include <deque>
#include <string>
#include <vector>

#include "kernels/fused.h"
#include "tests/gpu/ptx/concurrent/concurrent.h"
#include "tests/gpu/ptx/global_memory.h"
#include "tests/support/host_device/zeroed.h"
#include "tests/support/operation.h"

namespace gq::test {

/** Memory that kernels reach while this object lives. */
class Reachable {
 public:
  Reachable(const void* memory, size_t size_bytes, ptx::Use use);
  ~Reachable();
  Reachable(const Reachable&) = delete;
  Reachable& operator=(const Reachable&) = delete;

 private:
  const void* memory_;
};

/** What the host of a rank shares with its kernels. */
struct HostWords {
  uint64_t leave = 0;
  uint32_t step_at[2] = {};  ///< of calls whose step is not in their arguments
  Disagreement found = {};
};

/** Of the memory on the device only the control words are written before the first call. */
class RankBuffers {
 public:
  RankBuffers();
  FusedBuffers* memory() { return memory_.data(); }
  FusedControl& control() { return memory_.data()->control; }
  HostWords& host() { return host_; }

 private:
  Zeroed<FusedBuffers> memory_{1};
  HostWords host_;
  Reachable reached_{memory_.data(), sizeof(FusedBuffers), ptx::Use::device};
  Reachable reached_host_{&host_, sizeof host_, ptx::Use::host};
};

inline constexpr uint32_t kStatusWord = 1, kStepWord = 10, kIndexWord = 11;

FusedRequest request_of(const Operation& call, size_t value_count, Disagreement* found);

/** A call as one rank makes it. */
struct RankCall {
  Operation operation;
  const Values* input;
  Values* result;
};

class FusedRanks {
 public:
  FusedRanks(uint32_t ranks, uint32_t block_count, uint32_t calls_before = 0);

  uint32_t size() const { return static_cast<uint32_t>(buffers_.size()); }
  RankBuffers& buffers(uint32_t rank) { return buffers_[rank]; }
  void wait_for(uint64_t timeout_ns) { timeout_ns_ = timeout_ns; }

  /** The calls of each rank, one after the other; ranks wait for each other only as kernels do.
   *  Throws ptx::Finding. */
  void run(const std::vector<std::vector<RankCall>>& calls, const ptx::Schedule& schedule);

 private:
  FusedArgs args(const RankCall& call, uint32_t rank);
  /** As a host does: each tensor begins where values are aligned. */
  void place_segments(const RankCall& call, uint64_t alignment, uint32_t rank, FusedArgs* args);

  std::deque<RankBuffers> buffers_;
  std::vector<ptx::OrderedStream> streams_;
  uint32_t block_count_;
  uint64_t timeout_ns_ = UINT64_MAX;
};

/** What results hold where no kernel has written. */
inline constexpr float kUntouched = 77.0f;

/** One call of each rank, which may differ, by the same inputs; none of rank `missing`. */
std::vector<Values> make_each(FusedRanks* ranks, const std::vector<Operation>& calls,
                              const std::vector<Values>& inputs, const ptx::Schedule& schedule,
                              uint32_t missing = UINT32_MAX);

/** Calls of all ranks one after the other: "" or the first difference to virtual ranks. */
std::string make_calls(FusedRanks* ranks, const std::vector<Operation>& calls,
                       const std::vector<size_t>& value_counts, uint64_t seed,
                       const std::vector<float>& factors = {});

/** Of these formats in turn, in place and not, with steps of the host's and of the device's. */
std::vector<Operation> calls_of(const std::vector<std::string>& formats, size_t count);

}  // namespace gq::test

#endif
