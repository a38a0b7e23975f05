// The tables of the CUDA stages: for several ranges at once, and for one.
#include "kernels/cuda/tables.h"

namespace gq {
namespace {

StageError norm(const NormArgs& args) { return cuda::norm(&args, 1, {}); }
StageError merge_norms(const MergeNormsArgs& args) { return cuda::merge_norms(&args, 1); }
StageError quantize(const QuantizeArgs& args) { return cuda::quantize(&args, 1, {}); }
StageError reduce_many(const ReduceManyArgs& args) { return cuda::reduce_many(&args, 1, {}); }
StageError dequantize(const DequantizeArgs& args) { return cuda::dequantize(&args, 1, {}); }

}  // namespace

const Stages& cuda_stages() {
  static constexpr Stages kStages = {
      "cuda",      norm,        merge_norms,         quantize,
      cuda::reduce, reduce_many, dequantize,          cuda::count_entries,
      cuda::select, cuda::add_sparse,
  };
  return kStages;
}

const BatchStages& cuda_batch_stages() {
  static constexpr BatchStages kStages = {cuda::norm, cuda::merge_norms, cuda::quantize,
                                          cuda::reduce_many, cuda::dequantize};
  return kStages;
}

const char* cuda_build() { return GQ_CUDA_BUILD; }

}  // namespace gq
