// Dequantize on a stream: what its bodies (dequantize.cuh) become kernels of.
#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/launch/launch.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

StageError dequantize(const DequantizeArgs* args, size_t count, void* table) {
  return dequantize_on(DeviceLauncher(args->stream, args->gate), args, count, table);
}

}  // namespace gq::cuda
