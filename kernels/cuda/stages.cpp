// The tables of the CUDA stages: for several ranges at once, and for one.
#include "kernels/cuda/tables.h"

namespace gq {
namespace {

/** Ranges of groups have stages of their own. */
template <auto kStage, auto kOfGroups, auto kOfRice, typename Args>
StageError batch(const Args* args, size_t count, const BatchTable& table) {
  if constexpr (requires { args->coding; }) {
    if (args->coding.levels == Levels::rice) return kOfRice(args, count, table);
  }
  return args->range.grouped != nullptr ? kOfGroups(args, count, table)
                                        : kStage(args, count, table);
}

constexpr BatchStages kBatches = {
    batch<cuda::norm, cuda::norm_of_groups, cuda::norm_of_groups, NormArgs>,
    cuda::merge_norms,
    batch<cuda::quantize, cuda::quantize_groups, cuda::quantize_rice, QuantizeArgs>,
    batch<cuda::reduce_many, cuda::reduce_groups, cuda::reduce_rice, ReduceManyArgs>,
    batch<cuda::dequantize, cuda::dequantize_groups, cuda::dequantize_rice, DequantizeArgs>,
    cuda::write_segments,
};

template <auto kStage, typename Args>
StageError one(const Args& args) {
  return (kBatches.*kStage)(&args, 1, {});
}
StageError merge_norms(const MergeNormsArgs& args) { return kBatches.merge_norms(&args, 1); }

}  // namespace

const Stages& cuda_stages() {
  static constexpr Stages kStages = {
      "cuda",
      one<&BatchStages::norm>,
      merge_norms,
      one<&BatchStages::quantize>,
      cuda::reduce,
      one<&BatchStages::reduce_many>,
      one<&BatchStages::dequantize>,
      cuda::count_entries,
      cuda::select,
      cuda::add_sparse,
  };
  return kStages;
}

const BatchStages& cuda_batch_stages() { return kBatches; }

const char* cuda_build() { return GQ_CUDA_BUILD; }

}  // namespace gq
