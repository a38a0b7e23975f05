// Norms and scales of blocks as 16 bits (docs/FORMAT.md, section 4): the upper half of a float32,
// rounded up, so that no value exceeds its norm. Codes are ordered as what they stand for, NaN
// last, so that the norm over ranks is the largest code.
#ifndef GQ_KERNELS_CODEC_BLOCK_NORM_H
#define GQ_KERNELS_CODEC_BLOCK_NORM_H

#include "kernels/codec/global_norm.h"

namespace gq {

/** Stands for the largest float32: the one norm that is not the upper half of a float32. */
inline constexpr uint16_t kNormCodeMax = 0x7f80;
inline constexpr uint16_t kNormCodeNan = 0x7fff;

/** The code of a magnitude's pattern, rounded up. NaN and infinity are one code. */
GQ_HD uint16_t norm_code(uint32_t magnitude) {
  if (magnitude >= kFloatInfinityBits) return kNormCodeNan;
  return static_cast<uint16_t>((magnitude + 0xffffu) >> 16);
}

GQ_HD float norm_from_code(uint16_t code) {
  if (code > kNormCodeMax) return float_from_bits(kFloatNanBits);
  return float_from_bits(code == kNormCodeMax ? kFloatMaxBits : static_cast<uint32_t>(code) << 16);
}

/** A scale made for one block of a wide sum (rescale): what the largest magnitude of the block's
 *  mean becomes, and the same in units of the sum, as the norm for its encoding. */
struct Rescaled {
  uint16_t code;
  float sum_norm;
};

/** The parts of rescaled() where norm and peak are positive numbers. */
GQ_HD uint16_t rescaled_code(float norm, float peak, double full) {
  const double scale = static_cast<double>(norm) * peak / full;
  return norm_code(float_bits(round_up_to_float(scale)));
}
GQ_HD float rescaled_sum_norm(uint16_t code, float norm, double full) {
  return static_cast<float>(norm_from_code(code) * full / norm);
}

/** norm: of the block, a norm_from_code. peak: the largest |sum| of the block. full: the sum where
 * all ranks hold their top code. The sum's norm may miss the peak by one rounding, never by more.
 */
GQ_HD Rescaled rescaled(float norm, float peak, double full) {
  if (norm != norm) return Rescaled{kNormCodeNan, 0};
  if (norm == 0 || peak == 0) return Rescaled{0, 0};
  const uint16_t code = rescaled_code(norm, peak, full);
  return Rescaled{code, rescaled_sum_norm(code, norm, full)};
}

/** Sums of means that have scales of their own: what one step of the mean of `weight` ranks counts
 *  in the mean of all `ranks`, for a scale of 1. */
GQ_HD float mean_weight(uint32_t weight, uint32_t ranks, uint32_t steps) {
  return static_cast<float>(weight / (static_cast<double>(ranks) * steps));
}

/** The same under the scale of a block. NaN makes NaN of all its codes, those of zero included. */
GQ_HD float mean_factor(uint16_t scale, float weight) { return norm_from_code(scale) * weight; }

/** The scale of a block of such a sum, from the largest magnitude's pattern. Infinity is a sum that
 *  a rounding took beyond the largest float32. */
GQ_HD Rescaled rescaled_means(uint32_t peak) {
  const uint16_t code = norm_code(peak == kFloatInfinityBits ? kFloatMaxBits : peak);
  return Rescaled{code, norm_from_code(code)};
}

}  // namespace gq

#endif
