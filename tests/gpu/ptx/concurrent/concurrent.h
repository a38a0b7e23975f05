// Kernels of several streams that run at the same time, on one thread. Which block goes on next is
// drawn from a seed, so every run with that seed is the same one, and time is counted in steps.
#ifndef GQ_TESTS_GPU_PTX_CONCURRENT_CONCURRENT_H
#define GQ_TESTS_GPU_PTX_CONCURRENT_CONCURRENT_H

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tests/gpu/ptx/kernel.h"
#include "tests/gpu/ptx/order.h"

namespace gq::ptx {

/** A launch that is not under way yet. */
struct Recorded {
  const Kernel* kernel;
  uint32_t blocks;
  uint32_t threads;
  std::vector<uint8_t> parameters;
};

/** The next launch of a stream whose last one has ended; none: the stream is done. */
using NextLaunch = std::function<std::optional<Recorded>(uint32_t stream)>;

/** A step lets one block run until its threads wait for each other, or for what others write. */
inline constexpr uint64_t kStepNs = 100;  // by %globaltimer

struct Schedule {
  uint64_t seed = 0;
  /** Whether this block of a stream's launch does not go on now; null: none is held back. */
  std::function<bool(uint32_t stream, uint32_t block)> is_held = nullptr;
  /** What a host does meanwhile; null: nothing. */
  std::function<void(uint64_t time_ns)> before_step = nullptr;
};

/** Returns when all streams are done. Throws Finding, also where no block comes any further. */
void run_concurrently(std::vector<OrderedStream>* streams, const NextLaunch& next,
                      const Schedule& schedule);

}  // namespace gq::ptx

#endif
