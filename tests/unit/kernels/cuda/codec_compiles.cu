// What the kernels do not use yet of the codec, called from device code for one value per thread.
#include "kernels/codec/global_norm.h"
#include "kernels/codec/narrow_codes.h"
#include "kernels/codec/norm.h"

namespace gq {

__device__ uint64_t this_value() { return blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; }

__global__ void norms_of_ranks(const float* values, GlobalNorm norm, float* merged) {
  const uint64_t e = this_value();
  norm.merge(norm.to_wire(norm_words(double_bits(norm_term(NormOrder::two, values[e])))));
  merged[e] = norm.result() + float_from_bits(magnitude_bits(values[e]));
}

template <Levels kLevels>
__device__ void narrow_code(const float* values, uint32_t ranks, uint16_t* codes, float* sums) {
  const uint64_t e = this_value();
  const int32_t shift = static_cast<int32_t>(sum_shift(kLevels, ranks));
  codes[e] = narrow_encode<kLevels, false>(values[e] * power_of_two(-shift), ranks);
  sums[e] = narrow_decode<kLevels>(codes[e]) * power_of_two(shift);
}

__global__ void narrow_codes(const float* values, uint32_t ranks, uint16_t* codes, float* sums) {
  narrow_code<Levels::bf16>(values, ranks, codes, sums);
  narrow_code<Levels::fp16>(values, ranks, codes, sums);
}

}  // namespace gq
