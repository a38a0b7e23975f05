// Wide reduce on a stream: what its bodies (reduce_many.cuh) become kernels of.
#include "kernels/cuda/launch/launch.cuh"
#include "kernels/cuda/reduce_many.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

StageError reduce_many(const ReduceManyArgs* args, size_t count, void* table) {
  return reduce_many_on(DeviceLauncher(args->stream), args, count, table);
}

}  // namespace gq::cuda
