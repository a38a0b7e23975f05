// Reduce on a stream: what its bodies (reduce.cuh) become kernels of.
#include "kernels/cuda/launch/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

StageError reduce(const ReduceArgs& args) { return reduce_on(DeviceLauncher(args.stream), args); }

}  // namespace gq::cuda
