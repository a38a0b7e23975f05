// Launches on a stream, and the gate before a call's results.
#ifndef GQ_KERNELS_CUDA_LAUNCH_LAUNCH_CUH
#define GQ_KERNELS_CUDA_LAUNCH_LAUNCH_CUH

#include <type_traits>

#include "kernels/cuda/launch/block.cuh"
#include "kernels/cuda/launch/kernels.cuh"
#include "kernels/stage_error.h"
#include "kernels/stages.h"

namespace gq::cuda {

struct StageDefaults {
  static constexpr uint32_t kThreads = kBlockThreads;
  static constexpr uint32_t kBlocksAtOnce = 3;  ///< on a processor, at least: 80 registers each
};

/** No more blocks than run at once, of as many iterations each. */
inline uint32_t block_count(uint32_t iteration_count, uint32_t at_once) {
  const uint32_t rounds = iteration_count / at_once + (iteration_count % at_once != 0);
  return rounds == 0 ? 0 : iteration_count / rounds + (iteration_count % rounds != 0);
}

/** Iterations that are a block's own: from `first` on, below `end`, gridDim.x apart. */
struct Iterations {
  uint32_t first;
  uint32_t end;
};

/** What the first block that comes decides, for all of them. The others wait for it: loads from the
 *  host's memory go one after the other, some 2 us each, so that one of each block takes hundreds
 *  (docs/results/gpu-changes.md). */
GQ_DEVICE uint32_t decided_gate(const Gate& gate) {
  uint32_t state = atomicCAS(gate.word, kGateUndecided, kGateDeciding);
  if (state == kGateUndecided) {
    const volatile uint32_t* const broken = gate.broken;
    state = *broken != 0 ? kGateClosed : kGateOpen;
    atomicExch(gate.word, state);
  }
  while (state == kGateDeciding) state = atomicCAS(gate.word, kGateDeciding, kGateDeciding);
  return state;
}

/** The same for all threads of all blocks. */
GQ_DEVICE bool is_open(const Gate& gate) {
  if (gate.word == nullptr) return true;
  __shared__ bool open;
  if (threadIdx.x == 0) open = decided_gate(gate) == kGateOpen;
  __syncthreads();
  return open;
}

/** Enqueues on one stream; never waits. Returns the first error: nothing is enqueued behind it. */
class Launcher {
 public:
  explicit Launcher(void* stream, const Gate& gate = {})
      : stream_(static_cast<cudaStream_t>(stream)), gate_(gate) {}

  const Gate& gate() const { return gate_; }
  const StageError& error() const { return error_; }

  /** The launch itself returns its error: the thread's last error may be one that a caller has left
   *  there. */
  template <auto kKernel, typename... Arguments>
  StageError launch(uint32_t blocks, uint32_t threads, const Arguments&... arguments) const {
    return launch_as(kKernel, listed_kernel<kKernel>, blocks, threads, arguments...);
  }

  /** A stage's kernel, of which the stage is the first argument. */
  template <auto kKernel, typename Stage, typename... Others>
  StageError run(uint32_t iteration_count, const Stage& stage, const Others&... others) const {
    uint32_t at_once = 0;
    if (!failed(error_)) error_ = blocks_at_once<kKernel>(Stage::kThreads, &at_once);
    if (failed(error_)) return error_;
    return launch<kKernel>(block_count(iteration_count, at_once), Stage::kThreads, stage,
                           others...);
  }

  StageError clear(void* memory, size_t size_bytes) const {
    if (failed(error_)) return error_;
    return error_ = checked(cudaMemsetAsync(memory, 0, size_bytes, stream_), "cudaMemsetAsync");
  }

 private:
  template <typename... Parameters>
  StageError launch_as(void (*)(Parameters...), const ListedKernel& kernel, uint32_t blocks,
                       uint32_t threads,
                       const std::type_identity_t<Parameters>&... arguments) const {
    if (blocks == 0 || failed(error_)) return error_;  // An empty grid is a launch error.
    void* list[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
    const cudaError_t launched =
        cudaLaunchKernel(kernel.entry, dim3(blocks), dim3(threads), list, 0, stream_);
    return error_ = checked(launched, "a kernel's launch");
  }

  cudaStream_t stream_;
  Gate gate_;
  mutable StageError error_;
};

}  // namespace gq::cuda

#endif
