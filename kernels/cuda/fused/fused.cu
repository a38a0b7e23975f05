// Fused allreduces on a stream: what their bodies (fused.cuh) become kernels of, and how many
// blocks of them run at the same time.
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/fused/fused.cuh"
#include "kernels/cuda/launch/launch.cuh"

namespace gq::cuda {

/** The threads of this block, through one body after the other. */
class DeviceTeam {
 public:
  __device__ __forceinline__ explicit DeviceTeam(FusedShared& shared) : shared_(shared) {}

  __device__ __forceinline__ static uint32_t number() { return blockIdx.x; }
  __device__ __forceinline__ static uint32_t count() { return gridDim.x; }
  __device__ __forceinline__ FusedShared& shared() { return shared_; }

  /** Without a barrier behind. */
  template <typename Step>
  __device__ __forceinline__ void each(Step step) {
    step(threadIdx.x);
  }

  template <typename Step>
  __device__ __forceinline__ void all(Step step) {
    step(threadIdx.x);
    __syncthreads();
  }

  template <typename Body>
  __device__ __forceinline__ void run(const Body& body) {
    typename Body::Own own;
    DeviceBlock<Body> block{shared_.of_stage<Body>(), own};
    run_block(body, block);
  }

 private:
  FusedShared& shared_;
};

template <typename Body>
__global__ void __launch_bounds__(Body::kThreads, Body::kBlocksAtOnce)
    fused_kernel(const __grid_constant__ Body body) {
  __shared__ FusedShared shared;
  DeviceTeam team(shared);
  body.run(team);
}

}  // namespace gq::cuda

namespace gq {
namespace {

using cuda::fused_kernel;

struct FusedLauncher {
  uint32_t block_count;
  cudaStream_t stream;

  template <typename Body>
  StageError run(const Body& body) const {
    void* arguments[] = {const_cast<Body*>(&body)};
    return cuda::enqueue(fused_kernel<Body>, block_count, Body::kThreads, arguments, stream);
  }
};

/** Looks for the kernel of which the fewest blocks run at once, and loads all of them: when one is
 *  launched that is not, CUDA may wait for the kernels that run. */
struct FewestBlocks {
  int* fewest;

  template <typename Body>
  StageError run(const Body&) const {
    cudaFuncAttributes attributes;
    const StageError loaded = cuda::checked(cudaFuncGetAttributes(&attributes, fused_kernel<Body>),
                                            "cudaFuncGetAttributes");
    if (failed(loaded)) return loaded;
    int count = 0;
    const StageError error = cuda::checked(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                                               &count, fused_kernel<Body>, Body::kThreads, 0),
                                           "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    if (!failed(error) && count < *fewest) *fewest = count;
    return error;
  }
};

/** Then a host comes back from a launch when its kernel has ended, which waits for others'. */
bool launches_block() {
  const char* const value = getenv("CUDA_LAUNCH_BLOCKING");
  return value != nullptr && strcmp(value, "0") != 0;
}

StageError allreduce(const FusedArgs& args) {
  return cuda::fused_on(FusedLauncher{args.block_count, static_cast<cudaStream_t>(args.stream)},
                        args);
}

StageError blocks_at_once(uint32_t* count) {
  int device = 0, processors = 0, fewest = INT32_MAX;
  const char* const what = "what the device can run at once";
  StageError error = cuda::checked(cudaGetDevice(&device), what);
  if (failed(error)) return error;
  error = cuda::checked(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
                        what);
  FusedArgs args{};
  args.buffers[0] = reinterpret_cast<FusedBuffers*>(alignof(FusedBuffers));  // where no block reads
  args.ranks = args.coding.ranks = 1;
  for (const uint8_t bits : {4, 8}) {
    for (const uint8_t mantissa_bits : {0, 2}) {
      for (const Levels levels : {Levels::linear, Levels::exponential}) {
        args.coding.bits = bits;
        args.coding.mantissa_bits = mantissa_bits;
        args.coding.levels = levels;
        for (const uint32_t block : {0, 128}) {
          args.coding.block = block;
          if (!failed(error)) error = cuda::fused_on(FewestBlocks{&fewest}, args);
        }
      }
    }
  }
  if (launches_block()) fewest = 0;
  if (!failed(error)) *count = static_cast<uint32_t>(fewest * processors);
  return error;
}

/** As the driver reads it when a device is first used; the value taken cannot be queried. */
uint32_t queues() {
  constexpr long kDefault = 8, kMost = 32;
  const char* const value = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const long count = value == nullptr ? kDefault : strtol(value, nullptr, 10);
  return static_cast<uint32_t>(count >= 1 && count <= kMost ? count : kDefault);
}

}  // namespace

const FusedStages& cuda_fused_stages() {
  static constexpr FusedStages kStages = {allreduce, blocks_at_once, queues};
  return kStages;
}

}  // namespace gq
