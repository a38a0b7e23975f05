// How kernels that run at the same time, on any device of the machine, signal each other: words of
// 64 bits, and everything written before them.
#ifndef GQ_KERNELS_CUDA_FUSED_SIGNAL_CUH
#define GQ_KERNELS_CUDA_FUSED_SIGNAL_CUH

#include "kernels/cuda/launch/block.cuh"

namespace gq::cuda {

/** What the block has written before its last barrier is visible to a thread that load-acquires the
 *  word. */
GQ_DEVICE void store_release(uint64_t* place, uint64_t word) {
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(place), "l"(word) : "memory");
}

GQ_DEVICE uint64_t load_acquire(const uint64_t* place) {
  uint64_t word;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(word) : "l"(place) : "memory");
  return word;
}

/** What another kernel has left there; fence_acquire() behind it makes of it an acquire. */
GQ_DEVICE uint64_t load_relaxed(const uint64_t* place) {
  return *static_cast<const volatile uint64_t*>(place);
}
GQ_DEVICE void fence_acquire() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

/** Among blocks of one device: `wanted` takes the place of `expected` if that is still there.
 *  Returns what was. */
GQ_DEVICE uint64_t compare_exchange(uint64_t* place, uint64_t expected, uint64_t wanted) {
  uint64_t before;
  asm volatile("atom.acq_rel.gpu.cas.b64 %0, [%1], %2, %3;"
               : "=l"(before)
               : "l"(place), "l"(expected), "l"(wanted)
               : "memory");
  return before;
}

GQ_DEVICE uint64_t clock_ns() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace gq::cuda

#endif
