// Blocks of threads, what the threads of one may do together, and a search that each may do.
#ifndef GQ_KERNELS_CUDA_LAUNCH_BLOCK_CUH
#define GQ_KERNELS_CUDA_LAUNCH_BLOCK_CUH

#include "kernels/codec/portable.h"

#define GQ_DEVICE __device__ __forceinline__

namespace gq::cuda {

inline constexpr uint32_t kBlockThreads = 256;

/** Of every device. To kernels it is no constant: they would divide by it. */
inline constexpr uint32_t kWarpThreads = 32;

/** *place = the larger of it and `value`; other threads may do the same. */
GQ_DEVICE void raise(uint32_t* place, uint32_t value) { atomicMax(place, value); }

/** The same where all threads of a block are here and mean one place: once for each warp. */
GQ_DEVICE void raise_together(uint32_t* place, uint32_t value) {
  const uint32_t largest = __reduce_max_sync(0xffffffffu, value);
  if (threadIdx.x % kWarpThreads == 0) atomicMax(place, largest);
}

/** The last of `count` that begins at the value or before, else the first. begin_of(k) rises. */
template <typename Number, typename BeginOf>
GQ_DEVICE Number last_begun(Number count, uint64_t value, BeginOf begin_of) {
  Number low = 0, high = count;
  while (high - low > 1) {
    const Number middle = low + (high - low) / 2;
    (begin_of(middle) <= value ? low : high) = middle;
  }
  return low;
}

}  // namespace gq::cuda

#endif
