// A device's blocks of threads without a device: bodies, run for every thread of every block in
// plain loops, with a barrier after each phase as on a device. To be included first.
#ifndef GQ_TESTS_UNIT_KERNELS_CUDA_EMULATED_H
#define GQ_TESTS_UNIT_KERNELS_CUDA_EMULATED_H

// clang-format off
#include "tests/support/host_device/device_code_on_host.h"
// clang-format on

#include <string.h>

#include "kernels/cuda/launch/pieces.cuh"
#include "kernels/stages.h"

namespace gq::test {

/** Fewer blocks than most calls have iterations, so that blocks run several. */
constexpr uint32_t kBlocks = 3;

/** A block of threads, run one at a time on one processor. What is shared, or a thread's own,
 * begins as something that no body may rely on. */
template <typename Body>
class EmulatedBlock {
 public:
  using Shared = typename Body::Shared;
  using Own = typename Body::Own;

  explicit EmulatedBlock(uint32_t number) : number_(number) {
    memset(static_cast<void*>(&shared_), 0xCA, sizeof shared_);
    memset(static_cast<void*>(own_), 0xCA, sizeof own_);
  }

  uint32_t number() const { return number_; }
  uint32_t count() const { return kBlocks; }

  template <bool kBarrier, typename Step>
  void all(Step step) {
    for (uint32_t thread = 0; thread < Body::kThreads; ++thread) {
      step(cuda::Local<Shared, Own>{thread, shared_, own_[thread]});
    }
  }

 private:
  uint32_t number_;
  Shared shared_;
  Own own_[Body::kThreads];
};

struct EmulatedLauncher {
  template <typename Body>
  StageError run(const Body& body) const {
    for (uint32_t number = 0; number < kBlocks; ++number) {
      EmulatedBlock<Body> block(number);
      cuda::run_block(body, block);
    }
    return {};
  }

  StageError clear(void* memory, size_t size_bytes) const {
    memset(memory, 0, size_bytes);
    return {};
  }
};

// The stages of sparse entries (emulated_lists.cpp).
StageError emulated_count_entries(const CountEntriesArgs& args);
StageError emulated_select(const SelectArgs& args);
StageError emulated_add_sparse(const AddSparseArgs& args);

}  // namespace gq::test

#endif
