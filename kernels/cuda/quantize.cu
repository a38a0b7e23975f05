// Quantize on a stream: what its bodies (quantize.cuh) become kernels of.
#include "kernels/cuda/launch/launch.cuh"
#include "kernels/cuda/quantize.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

StageError quantize(const QuantizeArgs* args, size_t count, void* table) {
  return quantize_on(DeviceLauncher(args->stream), args, count, table);
}

}  // namespace gq::cuda
