// What the kernels do not use yet of the codec, called from device code for one value per thread.
#include "kernels/codec/global_norm.h"
#include "kernels/codec/norm.h"
#include "kernels/codec/sparse.h"

namespace gq {

__device__ uint64_t this_value() { return blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; }

__global__ void norms_of_ranks(const float* values, GlobalNorm norm, float* merged) {
  const uint64_t e = this_value();
  norm.merge(norm.to_wire(norm_words(double_bits(norm_term(NormOrder::two, values[e])))));
  merged[e] = norm.result() + float_from_bits(magnitude_bits(values[e]));
}

__global__ void entries(const uint64_t* skipped, const float* norm, Coding coding,
                        uint32_t* entries, float* step) {
  const uint64_t e = this_value();
  const uint32_t zero = zero_lane(coding);
  const uint32_t entry =
      fillers_of(skipped[e]) > 0 ? filler_entry(zero) : entry_of(skipped[e], zero + 1);
  entries[e] = gap_of_entry(entry) + lane_of_entry(entry, coding.bits);
  step[e] = list_step(coding, *norm, true);
}

}  // namespace gq
