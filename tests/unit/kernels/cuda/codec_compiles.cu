// What the kernels do not use yet of the codec, called from device code for one value per thread.
#include "kernels/codec/global_norm.h"
#include "kernels/codec/norm.h"

namespace gq {

__device__ uint64_t this_value() { return blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; }

__global__ void norms_of_ranks(const float* values, GlobalNorm norm, float* merged) {
  const uint64_t e = this_value();
  norm.merge(norm.to_wire(norm_words(double_bits(norm_term(NormOrder::two, values[e])))));
  merged[e] = norm.result() + float_from_bits(magnitude_bits(values[e]));
}

}  // namespace gq
