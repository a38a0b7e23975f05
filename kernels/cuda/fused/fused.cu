// Fused allreduces on a stream, and how many blocks of them run at the same time.
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/fused/fused.cuh"

namespace gq {
namespace {

using cuda::fused_kernel;
using cuda::kBlockThreads;

/** Looks for the kernel of which the fewest blocks run at once, and loads all of them: when one is
 *  launched that is not, CUDA may wait for the kernels that run. */
StageError keep_fewest(const FusedArgs& args, int* fewest) {
  return cuda::with_fused_stages(args, [&]<typename Stages>(const Stages&) {
    cudaFuncAttributes attributes;
    const StageError loaded =
        cuda::checked(cudaFuncGetAttributes(&attributes, fused_kernel<Stages>),
                      "cudaFuncGetAttributes");
    if (failed(loaded)) return loaded;
    int count = 0;
    const StageError error =
        cuda::checked(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, fused_kernel<Stages>,
                                                                    kBlockThreads, 0),
                      "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    if (!failed(error) && count < *fewest) *fewest = count;
    return error;
  });
}

/** Then a host comes back from a launch when its kernel has ended, which waits for others'. */
bool launches_block() {
  const char* const value = getenv("CUDA_LAUNCH_BLOCKING");
  return value != nullptr && strcmp(value, "0") != 0;
}

StageError allreduce(const FusedArgs& args) {
  return cuda::with_fused_stages(args, [&]<typename Stages>(const Stages& stages) {
    return cuda::Launcher(args.stream)
        .launch(fused_kernel<Stages>, args.block_count, kBlockThreads, stages);
  });
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
          if (!failed(error)) error = keep_fewest(args, &fewest);
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
