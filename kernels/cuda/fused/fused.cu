// Fused allreduces on a stream, and how many blocks of them run at the same time.
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/fused/fused.cuh"

namespace gq {
namespace {

using cuda::fused_kernel;
using cuda::kBlockThreads;

/** Then a host comes back from a launch when its kernel has ended, which waits for others'. */
bool launches_block() {
  const char* const value = getenv("CUDA_LAUNCH_BLOCKING");
  return value != nullptr && strcmp(value, "0") != 0;
}

StageError allreduce(const FusedArgs& args) {
  return cuda::with_fused_stages(args, [&]<typename Stages>(const Stages& stages) {
    return cuda::Launcher(args.stream)
        .launch<fused_kernel<Stages>>(args.block_count, kBlockThreads, stages);
  });
}

/** Of the kernel of which the fewest run at once. */
StageError blocks_at_once(uint32_t* count) {
  FusedArgs args{};
  args.buffers[0] = reinterpret_cast<FusedBuffers*>(alignof(FusedBuffers));  // where no block reads
  args.ranks = args.coding.ranks = 1;
  StageError error;
  uint32_t fewest = UINT32_MAX;
  const auto look = [&]<typename Stages>(const Stages&) {
    uint32_t here = 0;
    error = cuda::blocks_at_once<fused_kernel<Stages>>(kBlockThreads, &here);
    if (here < fewest) fewest = here;
    return error;
  };
  for (const uint8_t bits : {4, 8}) {
    for (const uint8_t mantissa_bits : {0, 2}) {
      for (const Levels levels : {Levels::linear, Levels::exponential, Levels::none}) {
        for (const uint32_t block : {0, 128}) {
          args.coding.bits = bits;
          args.coding.mantissa_bits = mantissa_bits;
          args.coding.levels = levels;
          args.coding.block = block;
          if (!failed(error)) error = cuda::with_fused_stages(args, look);
        }
      }
    }
  }
  if (!failed(error)) *count = launches_block() ? 0 : fewest;
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
