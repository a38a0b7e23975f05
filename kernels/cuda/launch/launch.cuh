// Kernels of a device: a body's walk with real threads, and its launch on a stream.
#ifndef GQ_KERNELS_CUDA_LAUNCH_LAUNCH_CUH
#define GQ_KERNELS_CUDA_LAUNCH_LAUNCH_CUH

#include <cuda_runtime_api.h>

#include "kernels/cuda/launch/body.cuh"
#include "kernels/stage_error.h"
#include "kernels/stages.h"

namespace gq::cuda {

/** The threads of this block: a step runs for the calling one. */
template <typename Body>
struct DeviceBlock {
  typename Body::Shared& shared;
  typename Body::Own& own;

  __device__ __forceinline__ static uint32_t number() { return blockIdx.x; }
  __device__ __forceinline__ static uint32_t count() { return gridDim.x; }

  template <bool kBarrier, typename Step>
  __device__ __forceinline__ void all(Step step) {
    step(Local<typename Body::Shared, typename Body::Own>{threadIdx.x, shared, own});
    if constexpr (kBarrier) __syncthreads();
  }
};

/** The same for all threads of all blocks: the first that comes decides. */
__device__ __forceinline__ bool is_open(const Gate& gate) {
  if (gate.word == nullptr) return true;
  __shared__ bool open;
  if (threadIdx.x == 0) {
    uint32_t decided = atomicCAS(gate.word, kGateUndecided, kGateUndecided);
    if (decided == kGateUndecided) {  // The host's memory is far away: few blocks look there.
      const volatile uint32_t* const broken = gate.broken;
      const uint32_t wanted = *broken != 0 ? kGateClosed : kGateOpen;
      decided = atomicCAS(gate.word, kGateUndecided, wanted);
      if (decided == kGateUndecided) decided = wanted;
    }
    open = decided == kGateOpen;
  }
  __syncthreads();
  return open;
}

template <typename Body>
__global__ void __launch_bounds__(Body::kThreads, Body::kBlocksAtOnce)
    run_kernel(const __grid_constant__ Body body, const Gate gate) {
  if (!is_open(gate)) return;
  __shared__ typename Body::Shared shared;
  typename Body::Own own;
  DeviceBlock<Body> block{shared, own};
  run_block(body, block);
}

template <typename Body>
uint32_t block_count(uint32_t iteration_count) {
  constexpr uint32_t kIterations = Body::kIterationsPerBlock;
  const uint32_t even = iteration_count / kIterations + (iteration_count % kIterations != 0);
  const uint32_t wanted = even > Body::kBlocksAtLeast ? even : Body::kBlocksAtLeast;
  return iteration_count < wanted ? iteration_count : wanted;
}

/** The thread's last error of CUDA stays as a caller left it: one of ours is taken back. */
inline StageError checked(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();
  return {what, static_cast<int32_t>(error), cudaGetErrorName(error), cudaGetErrorString(error)};
}

/** Enqueues a kernel. The launch itself returns its error: the thread's last error may be one that
 *  a caller has left there. */
template <typename Kernel>
StageError enqueue(Kernel* kernel, uint32_t blocks, uint32_t threads, void** arguments,
                   cudaStream_t stream) {
  const void* const entry = reinterpret_cast<const void*>(kernel);
  return checked(cudaLaunchKernel(entry, dim3(blocks), dim3(threads), arguments, 0, stream),
                 "a kernel's launch");
}

/** Enqueues on one stream; never waits. With a gate kernels do nothing if it is closed when the
 *  stream reaches them. */
class DeviceLauncher {
 public:
  explicit DeviceLauncher(void* stream, const Gate& gate = {})
      : stream_(static_cast<cudaStream_t>(stream)), gate_(gate) {}

  template <typename Body>
  StageError run(const Body& body) const {
    if (body.iteration_count == 0) return {};  // An empty grid is a launch error.
    Gate gate = gate_;
    void* arguments[] = {const_cast<Body*>(&body), &gate};
    return enqueue(run_kernel<Body>, block_count<Body>(body.iteration_count), Body::kThreads,
                   arguments, stream_);
  }

  StageError clear(void* memory, size_t size_bytes) const {
    return checked(cudaMemsetAsync(memory, 0, size_bytes, stream_), "cudaMemsetAsync");
  }

 private:
  cudaStream_t stream_;
  Gate gate_;
};

}  // namespace gq::cuda

#endif
