// Norm and merge_norms on a stream.
#include "kernels/cuda/merge_norms.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

StageError norm(const NormArgs* args, size_t count, const BatchTable& table) {
  const Launcher launcher(args->stream);
  const NormCalls calls{args, count, table};
  if (args->block > 0) return block_norms(launcher, calls);
  if (args->q == NormOrder::inf) return largest_of(launcher, calls);
  if (args->q == NormOrder::one) return norm_sums<NormOrder::one>(launcher, calls);
  return norm_sums<NormOrder::two>(launcher, calls);
}

StageError merge_norms(const MergeNormsArgs* args, size_t count) {
  const Launcher launcher(args->stream);
  for (size_t done = 0; done < count; done += MergeNorms::kOthersMax) {
    const size_t left = count - done;
    const size_t here = left < MergeNorms::kOthersMax ? left : MergeNorms::kOthersMax;
    const MergeNorms stage(args + done, static_cast<uint32_t>(here));
    launcher.run<merge_norms_kernel>(stage.iterations(), stage);
  }
  return launcher.error();
}

}  // namespace gq::cuda
