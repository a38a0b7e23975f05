// Pointer arrays and norms on a stream: the kernels of the bodies in numbers.cuh.
#include "kernels/cuda/launch/launch.cuh"
#include "kernels/cuda/numbers.cuh"

namespace gq {
namespace {

StageError write_list(const WriteListArgs& args) {
  return cuda::write_list_on(cuda::DeviceLauncher(args.stream), args);
}

StageError write_numbers(const WriteNumbersArgs& args) {
  return cuda::write_numbers_on(cuda::DeviceLauncher(args.stream), args);
}

}  // namespace

const NumberStages& cuda_number_stages() {
  static constexpr NumberStages kStages = {write_list, write_numbers};
  return kStages;
}

}  // namespace gq
