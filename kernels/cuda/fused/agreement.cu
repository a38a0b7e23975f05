// The agreement of ranks on a stream: what its bodies (agreement.cuh) become kernels of.
#include "kernels/cuda/fused/agreement.cuh"
#include "kernels/cuda/launch/launch.cuh"

namespace gq {
namespace {

StageError take_step(const TakeStepArgs& args) {
  return cuda::DeviceLauncher(args.stream).run(cuda::TakeStep(args));
}

StageError write_header(const WriteHeaderArgs& args) {
  return cuda::DeviceLauncher(args.stream).run(cuda::WriteHeader(args));
}

StageError agree(const AgreeArgs& args) {
  return cuda::DeviceLauncher(args.stream).run(cuda::Agree(args));
}

StageError merge_rank_norms(const MergeRankNormsArgs& args) {
  return cuda::DeviceLauncher(args.stream).run(cuda::MergeRankNorms(args));
}

}  // namespace

const AgreementStages& cuda_agreement_stages() {
  static constexpr AgreementStages kStages = {take_step, write_header, agree, merge_rank_norms};
  return kStages;
}

}  // namespace gq
