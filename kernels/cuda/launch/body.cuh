// How a kernel runs: blocks of threads run grid-stride iterations, an iteration has parts, a part
// has phases, and a barrier follows each. One walk drives a device's threads (launch.cuh) and, in
// tests, plain loops over them.
#ifndef GQ_KERNELS_CUDA_LAUNCH_BODY_CUH
#define GQ_KERNELS_CUDA_LAUNCH_BODY_CUH

#include "kernels/codec/portable.h"

namespace gq::cuda {

template <uint32_t kNumber>
struct Interval {};

struct Nothing {};

/** A thread as its body sees it: its number in the block, what the block shares, what is its own.
 */
template <typename SharedData, typename OwnData>
struct Local {
  uint32_t thread;
  SharedData& shared;
  OwnData& own;
};

/** Of every device. To kernels it is no constant: they would divide by it. */
inline constexpr uint32_t kWarpThreads = 32;

/** Processors of an H200. */
inline constexpr uint32_t kProcessors = 132;

/** How a body's iterations are divided over blocks. A block has at most so many iterations that
 *  blocks end together; a second one only when there are as many blocks as processors can run at
 *  once. */
struct GridDefaults {
  static constexpr uint32_t kIterationsPerBlock = 8;
  static constexpr uint32_t kBlocksAtLeast = kProcessors * 8;
};

/** The same where a block begins with as much work as an iteration is. */
struct GridOfLongBlocks {
  static constexpr uint32_t kIterationsPerBlock = 16;
  static constexpr uint32_t kBlocksAtLeast = kProcessors * 4;
};

/** The default body, which does nothing; bodies override what differs. */
struct BodyDefaults : GridDefaults {
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kBlocksAtOnce = 3;  ///< on a processor, at least: 80 registers each
  static constexpr uint32_t kIntervals = 1;
  static constexpr uint32_t kCloseIntervals = 0;
  static constexpr uint32_t kEndIntervals = 0;
  static constexpr bool kShares = false;             ///< barriers after begin and in the end
  static constexpr bool kIterationBarriers = false;  ///< barriers inside iterations
  using Shared = Nothing;
  using Own = Nothing;

  uint32_t iteration_count = 1;
  uint32_t part_count = 1;  ///< of an iteration

  template <typename Here>
  GQ_HD void begin(Here) const {}
  template <typename Here>
  GQ_HD void open(uint32_t, Here) const {}
  template <typename Number, typename Here>
  GQ_HD void close(Number, uint32_t, Here) const {}
  template <typename Number, typename Here>
  GQ_HD void end(Number, Here) const {}
};

/** Calls `step(Phase<k>, local)` for each phase and thread. */
template <bool kBarrier, uint32_t kCount, uint32_t kDone = 0, typename Block, typename Step>
GQ_HD void for_each_interval(Block& block, Step step) {
  if constexpr (kDone < kCount) {
    block.template all<kBarrier>([&](auto local) { step(Interval<kDone>{}, local); });
    for_each_interval<kBarrier, kCount, kDone + 1>(block, step);
  }
}

/** Iterations from `first` on, up to `end`. */
struct Iterations {
  uint32_t first;
  uint32_t end;
};

/** What one block does of these iterations, which a body counts from 0 on; `next` is the block's
 *  first one. Returns the one that comes after them. `Block` runs a step for all of its threads,
 *  then perhaps waits for them. */
template <typename Body, typename Block>
GQ_HD uint32_t run_iterations(const Body& body, Block& block, uint32_t next,
                              const Iterations& iterations) {
  constexpr bool kBarrier = Body::kIterationBarriers;
  block.template all<Body::kShares>([&](auto local) { body.begin(local); });
  for (; next < iterations.end; next += block.count()) {
    const uint32_t iteration = next - iterations.first;
    if constexpr (kBarrier)
      block.template all<true>([&](auto local) { body.open(iteration, local); });
    for (uint32_t part = 0; part < body.part_count; ++part) {
      for_each_interval<kBarrier, Body::kIntervals>(
          block, [&](auto interval, auto local) { body.run(interval, iteration, part, local); });
    }
    for_each_interval<kBarrier, Body::kCloseIntervals>(
        block, [&](auto interval, auto local) { body.close(interval, iteration, local); });
  }
  for_each_interval<Body::kShares, Body::kEndIntervals>(
      block, [&](auto interval, auto local) { body.end(interval, local); });
  return next;
}

/** What one block does. */
template <typename Body, typename Block>
GQ_HD void run_block(const Body& body, Block& block) {
  run_iterations(body, block, block.number(), {0, body.iteration_count});
}

/** *place = the larger of it and `value`; other threads may do the same. */
GQ_HD void raise(uint32_t* place, uint32_t value) {
#if defined(__CUDA_ARCH__)
  atomicMax(place, value);
#else
  *place = value > *place ? value : *place;
#endif
}

/** The same where all threads of a block are here and mean one place: once for each warp. */
GQ_HD void raise_together(uint32_t* place, uint32_t value) {
#if defined(__CUDA_ARCH__)
  const uint32_t largest = __reduce_max_sync(0xffffffffu, value);
  if (threadIdx.x % kWarpThreads == 0) atomicMax(place, largest);
#else
  raise(place, value);
#endif
}

}  // namespace gq::cuda

#endif
