// How kernels that run at the same time, on any device of the machine, signal each other: words of
// 64 bits, and everything written before them. On a CPU the same by its own atomics, so that tests
// run it with threads.
#ifndef GQ_KERNELS_CUDA_FUSED_SIGNAL_CUH
#define GQ_KERNELS_CUDA_FUSED_SIGNAL_CUH

#include "kernels/codec/portable.h"

#if !defined(__CUDA_ARCH__)
#include <sched.h>
#include <time.h>
#endif

namespace gq::cuda {

/** What the block has written before its last barrier is visible to a thread that load-acquires the
 *  word. */
GQ_HD void store_release(uint64_t* place, uint64_t word) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(place), "l"(word) : "memory");
#else
  __atomic_store_n(place, word, __ATOMIC_RELEASE);
#endif
}

GQ_HD uint64_t load_acquire(const uint64_t* place) {
#if defined(__CUDA_ARCH__)
  uint64_t word;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(word) : "l"(place) : "memory");
  return word;
#else
  return __atomic_load_n(place, __ATOMIC_ACQUIRE);
#endif
}

/** What another kernel has left there; fence_acquire() behind it makes of it an acquire. On a CPU
 *  it is one already, because ThreadSanitizer knows no fences. */
GQ_HD uint64_t load_relaxed(const uint64_t* place) {
#if defined(__CUDA_ARCH__)
  return *static_cast<const volatile uint64_t*>(place);
#else
  return __atomic_load_n(place, __ATOMIC_ACQUIRE);
#endif
}
GQ_HD void fence_acquire() {
#if defined(__CUDA_ARCH__)
  asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

/** Among blocks of one device: `wanted` takes the place of `expected` if that is still there.
 *  Returns what was. */
GQ_HD uint64_t compare_exchange(uint64_t* place, uint64_t expected, uint64_t wanted) {
#if defined(__CUDA_ARCH__)
  uint64_t before;
  asm volatile("atom.acq_rel.gpu.cas.b64 %0, [%1], %2, %3;"
               : "=l"(before)
               : "l"(place), "l"(expected), "l"(wanted)
               : "memory");
  return before;
#else
  __atomic_compare_exchange_n(place, &expected, wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return expected;
#endif
}

GQ_HD uint64_t clock_ns() {
#if defined(__CUDA_ARCH__)
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
#endif
}

GQ_HD void rest() {
#if defined(__CUDA_ARCH__)
  __nanosleep(32);
#else
  sched_yield();
#endif
}

}  // namespace gq::cuda

#endif
