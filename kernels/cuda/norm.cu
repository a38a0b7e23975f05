// Norm and merge_norms on a stream: what its bodies become kernels of.
#include "kernels/cuda/launch/launch.cuh"
#include "kernels/cuda/merge_norms.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

StageError norm(const NormArgs* args, size_t count, void* table) {
  return norm_on(DeviceLauncher(args->stream), args, count, table);
}

StageError merge_norms(const MergeNormsArgs* args, size_t count) {
  return merge_norms_on(DeviceLauncher(args->stream), args, count);
}

}  // namespace gq::cuda
