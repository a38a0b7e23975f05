// What warps execute and ask of memory, counted by kernel: instructions, sectors of 32 bytes that
// requests to global memory touch, and turns that accesses of shared memory take because lanes are
// in the same banks.
#ifndef GQ_TESTS_GPU_PTX_TRAFFIC_H
#define GQ_TESTS_GPU_PTX_TRAFFIC_H

#include <cstdint>
#include <map>
#include <string>

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
  uint64_t instructions = 0;  ///< of PTX, each counted once for a warp
  Requests loads, stores;
  uint64_t bank_turns = 0;  ///< of shared memory
  uint64_t least_bank_turns = 0;
};

/** Of the kernels that have run since the last call, by name; the first call begins to count. */
std::map<std::string, Traffic> take_traffic();

/** Of one kernel; null while nothing counts. Blocks of a launch are executed by one host thread. */
class TrafficCounter {
 public:
  explicit TrafficCounter(const std::string& kernel);
  ~TrafficCounter();
  TrafficCounter(const TrafficCounter&) = delete;
  TrafficCounter& operator=(const TrafficCounter&) = delete;

  bool counts() const { return counts_; }
  void made(uint64_t instructions) { own_.instructions += instructions; }
  /** Addresses of the lanes in `threads`, each of `size_bytes`. */
  void global(bool loads, const uint64_t (&address)[kWarp], Mask threads, uint32_t size_bytes);
  void shared(const uint64_t (&address)[kWarp], Mask threads, uint32_t size_bytes);

 private:
  const std::string& kernel_;
  const bool counts_;
  Traffic own_;
};

}  // namespace gq::ptx

#endif
