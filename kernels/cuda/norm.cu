// Norm and merge_norms on a stream: what its bodies (norm.cuh) become kernels of.
#include "kernels/cuda/launch/launch.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

gqsgd_status norm(const NormArgs& args) { return norm_on(DeviceLauncher(args.stream), args); }

gqsgd_status merge_norms(const MergeNormsArgs& args) {
  return merge_norms_on(DeviceLauncher(args.stream), args);
}

}  // namespace gq::cuda
