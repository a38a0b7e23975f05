// Values that travel as floats of 16 bits, two in a word: levels bf16 and fp16 (docs/FORMAT.md,
// sections 5, 7 and 8). narrow.h rounds them.
#ifndef GQ_KERNELS_CODEC_NARROW_CODES_H
#define GQ_KERNELS_CODEC_NARROW_CODES_H

#include "kernels/codec/formats.h"
#include "kernels/codec/narrow.h"

namespace gq {

/** k of section 7: sums of fp16 codes travel divided by 2^k, so that finite codes of up to 8192
 *  ranks, whose float32 sum is at most what it would be exactly, have a finite sum. */
GQ_HD uint32_t sum_shift(Levels levels, uint32_t ranks) {
  uint32_t shift = 0;
  while (levels == Levels::fp16 && (uint64_t{1} << shift) < ranks) ++shift;
  return shift;
}

template <Levels kLevels>
GQ_HD float narrow_decode(uint16_t code) {
  static_assert(is_narrow(kLevels));
  return kLevels == Levels::fp16 ? half_to_float(code) : bfloat_to_float(code);
}

/** bits: R(e). */
template <Levels kLevels, bool kNearest>
GQ_HD uint16_t narrow_encode(float value, uint32_t bits) {
  static_assert(is_narrow(kLevels));
  return kLevels == Levels::fp16 ? float_to_half<kNearest>(value, bits)
                                 : float_to_bfloat<kNearest>(value, bits);
}

}  // namespace gq

#endif
