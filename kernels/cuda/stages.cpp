// The table of the CUDA stages.
#include "kernels/cuda/tables.h"

namespace gq {

const Stages& cuda_stages() {
  static constexpr Stages kStages = {
      "cuda",       cuda::norm,        cuda::merge_norms, cuda::quantize,
      cuda::reduce, cuda::reduce_many, cuda::dequantize,  cuda::count_entries,
      cuda::select, cuda::add_sparse,
  };
  return kStages;
}

const char* cuda_build() { return GQ_CUDA_BUILD; }

}  // namespace gq
