// Converts the C ABI's arguments to those of stages, on a stream: arrays of pointers, and norms as
// numbers.
#include "kernels/cuda/launch/values_kernel.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

/** A part of an array, passed as an argument of its kernel: a captured graph keeps a copy. */
struct ListPart {
  const void* pointers[kBlockThreads];
  uint32_t count;
  const void** out;

  ListPart(const void* const* list, size_t left, const void** out)
      : count(left < kBlockThreads ? static_cast<uint32_t>(left) : kBlockThreads), out(out) {
    for (uint32_t k = 0; k < kBlockThreads; ++k) pointers[k] = k < count ? list[k] : nullptr;
  }
};

__global__ void write_list_kernel(const __grid_constant__ ListPart part) {
  if (threadIdx.x < part.count) part.out[threadIdx.x] = part.pointers[threadIdx.x];
}

__global__ void write_numbers_kernel(const __grid_constant__ NormSource from, float* out,
                                     uint64_t count) {
  const uint64_t number = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (number < count) out[number] = from.at(number);
}

}  // namespace gq::cuda

namespace gq {
namespace {

using cuda::kBlockThreads;
using cuda::Launcher;

StageError write_list(const WriteListArgs& args) {
  for (size_t first = 0; first < args.count; first += kBlockThreads) {
    const cuda::ListPart part(args.list + first, args.count - first, args.out + first);
    const StageError error =
        Launcher(args.stream).launch(cuda::write_list_kernel, 1, kBlockThreads, part);
    if (failed(error)) return error;
  }
  return {};
}

StageError write_numbers(const WriteNumbersArgs& args) {
  const size_t blocks = (args.count + kBlockThreads - 1) / kBlockThreads;
  return Launcher(args.stream)
      .launch(cuda::write_numbers_kernel, static_cast<uint32_t>(blocks), kBlockThreads,
              cuda::NormSource(args.from, 1), args.out, args.count);
}

}  // namespace

const NumberStages& cuda_number_stages() {
  static constexpr NumberStages kStages = {write_list, write_numbers, cuda::write_widths};
  return kStages;
}

}  // namespace gq
