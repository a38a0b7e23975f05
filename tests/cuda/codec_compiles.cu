// Every function of the codec, called from device code for one value per thread.
#include "kernels/codec/block_norm.h"
#include "kernels/codec/exponential.h"
#include "kernels/codec/global_norm.h"
#include "kernels/codec/linear.h"
#include "kernels/codec/narrow.h"
#include "kernels/codec/norm.h"
#include "kernels/codec/random.h"
#include "kernels/codec/rotate.h"
#include "kernels/codec/sparse.h"
#include "kernels/codec/strata.h"
#include "kernels/codec/words.h"

namespace gq {

__device__ uint64_t this_value() { return blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; }

__global__ void linear_round_trip(const float* values, const float* norm, Coding coding,
                                  RandomStream stream, uint32_t* lanes, float* decoded) {
  const uint64_t e = this_value();
  const uint32_t bits = random_bits(stream, e);
  const Scale scale = linear_scale(*norm, coding.steps);
  const uint32_t lane = linear_encode<false>(values[e], scale, coding.steps, bits);
  const Average average = average_of(coding.ranks, 1);
  const uint32_t merged = linear_average(lane, lanes[e], average, bits);
  const float step = linear_step(*norm, 1, coding.steps);
  lanes[e] = merged ^ linear_average_equal8(lane, merged, bits);
  decoded[e] = linear_decode(merged, coding.steps, step);
}

__global__ void exponential_round_trip(const float* values, const float* norm, Coding coding,
                                       RandomStream stream, uint32_t* lanes, float* decoded) {
  const uint64_t e = this_value();
  const uint32_t word = random_bits(stream, e);
  const Scale scale = exponential_scale(*norm, 8, coding.headroom, 0);
  const uint8_t lane8 =
      without_negative_zero<8>(exponential_round<8, 0, false>(values[e], scale, word));
  const uint8_t sum = exponential_sum(lane8, static_cast<uint8_t>(lanes[e]),
                                      static_cast<uint8_t>(leading_zeros(word)));
  const Scale scale4 = exponential_scale(*norm, 4, 0, 0);
  const uint8_t lane4 =
      without_negative_zero<4>(exponential_round<4, 0, true>(values[e], scale4, word));
  const AverageOutcome outcome = exponential_average_outcome(lane4, lane4, coding.ranks, 1);
  lanes[e] = sum | exponential_average(outcome, word) << 8;
  const float unit = exponential_unit(*norm, true, true, coding.ranks, 0);
  decoded[e] = unit * float_from_upper(exponential_level_upper<8>(sum, 1));
}

__global__ void norms_and_narrow(const float* values, GlobalNorm norm, uint16_t* half,
                                 uint16_t* bfloat, float* merged) {
  const uint64_t e = this_value();
  norm.merge(norm.to_wire(norm_words(double_bits(norm_term(NormOrder::two, values[e])))));
  merged[e] = norm.result() + float_from_bits(magnitude_bits(values[e]));
  half[e] = float_to_half<false>(half_to_float(half[e]), 0);
  bfloat[e] = float_to_bfloat<false>(bfloat_to_float(bfloat[e]), 0);
}

__global__ void blocks_and_sums(const float* values, uint16_t* norms, Coding coding,
                                RandomStream shared, uint32_t* lanes, float* decoded) {
  const uint64_t e = this_value();
  const Rescaled made = rescaled(norm_from_code(norms[e]), values[e], coding.ranks);
  norms[e] = made.code + norm_code(magnitude_bits(values[e]));
  const uint32_t bits = random_bits(shared, e);
  const Scale scale = linear_scale(made.sum_norm, coding.steps_down);
  lanes[e] = linear_encode<false>(values[e], scale, coding.steps_down, bits);
  const float step = subtractive_step(values[e], coding.ranks, coding.steps_down);
  const Scale fine = exponential_scale(made.sum_norm, 8, 0, coding.mantissa_bits);
  const uint8_t lane = exponential_round<8, 2, false>(values[e], fine, bits);
  const float unit = exponential_unit(values[e], false, true, coding.ranks, coding.mantissa_bits);
  decoded[e] = subtractive_decode(lanes[e], coding.steps_down, step, bits) +
               unit * float_from_upper(exponential_fine_upper(lane));
}

__global__ void correlated_and_rotated(float* values, uint32_t rank, uint32_t ranks,
                                       RandomStream own, RandomStream a, RandomStream b,
                                       uint32_t* uniforms) {
  const uint64_t e = this_value();
  const Strata strata = strata_of(rank, ranks);
  uniforms[e] =
      correlated_uniform(strata, random_bits(own, e), random_bits(a, e), random_bits(b, e));
  const uint32_t sign = rotation_sign(uniforms[e], static_cast<uint32_t>(e));
  float* rotation = values + e * kRotationValues;
  rotation[0] = rotation_in(rotation[0], sign);
  hadamard(rotation);
  rotation[0] = rotation_out(rotation[0], sign);
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
