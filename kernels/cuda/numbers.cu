// Converts the C ABI's arguments to those of stages, on a stream: arrays of pointers, and norms as
// numbers.
#include "kernels/cuda/launch/values_kernel.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

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
  return cuda::write_items<const void*, kBlockThreads>(
      Launcher(args.stream), args.count, args.out, [&](size_t k) { return args.list[k]; });
}

StageError write_numbers(const WriteNumbersArgs& args) {
  const size_t blocks = (args.count + kBlockThreads - 1) / kBlockThreads;
  return Launcher(args.stream)
      .launch<cuda::write_numbers_kernel>(static_cast<uint32_t>(blocks), kBlockThreads,
                                          cuda::NormSource(args.from, 1), args.out, args.count);
}

}  // namespace

const NumberStages& cuda_number_stages() {
  static constexpr NumberStages kStages = {write_list, write_numbers, cuda::write_widths};
  return kStages;
}

}  // namespace gq
