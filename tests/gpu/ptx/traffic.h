// What warps execute and ask of memory, counted by kernel: instructions, sectors of 32 bytes that
// requests to global memory touch, and turns that accesses of shared memory take because lanes are
// in the same banks.
#ifndef GQ_TESTS_GPU_PTX_TRAFFIC_H
#define GQ_TESTS_GPU_PTX_TRAFFIC_H

#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/gpu/ptx/kernel.h"
#include "tests/gpu/ptx/warp.h"

namespace gq::ptx {

inline constexpr uint32_t kSectorBytes = 32;

/** Loads, or stores, of global memory. A request is one instruction of one warp. */
struct Requests {
  uint64_t count = 0;
  uint64_t sectors = 0;
  uint64_t least_sectors = 0;  ///< that its bytes would fill
  uint64_t half_sectors = 0;   ///< of requests by all lanes: of which some bytes are left out
};

struct Traffic {
  const Kernel* kernel = nullptr;
  std::vector<uint64_t> made;  ///< how often warps have come to each of its instructions
  Requests loads, stores;
  uint64_t bank_turns = 0;  ///< of shared memory
  uint64_t least_bank_turns = 0;

  uint64_t instructions() const { return std::accumulate(made.begin(), made.end(), uint64_t{0}); }
};

/** Of the kernels that have run since the last call, by name; the first call begins to count. */
std::map<std::string, Traffic> take_traffic();

/** Of one kernel; null while nothing counts. Blocks of a launch are executed by one host thread. */
class TrafficCounter {
 public:
  explicit TrafficCounter(const Kernel& kernel);
  ~TrafficCounter();
  TrafficCounter(const TrafficCounter&) = delete;
  TrafficCounter& operator=(const TrafficCounter&) = delete;

  bool counts() const { return counts_; }
  /** A warp, also where none of its threads makes the instruction. */
  void come_to(uint32_t instruction) {
    if (counts_) own_.made[instruction] += 1;
  }
  /** Addresses of the lanes in `threads`, each of `size_bytes`. */
  void global(bool loads, const uint64_t (&address)[kWarp], Mask threads, uint32_t size_bytes);
  void shared(const uint64_t (&address)[kWarp], Mask threads, uint32_t size_bytes);

 private:
  const bool counts_;
  Traffic own_;
};

}  // namespace gq::ptx

#endif
