// Adaptive widths (docs/FORMAT.md, section 16): how many bits the codes of each block of a group
// have. They follow from the blocks' global norms, which all ranks know before they quantize, and
// from nothing else: integer arithmetic on the norms' codes, so that all ranks find the same.
#ifndef GQ_KERNELS_CODEC_WIDTHS_H
#define GQ_KERNELS_CODEC_WIDTHS_H

#include "kernels/codec/block_norm.h"
#include "kernels/codec/formats.h"

namespace gq {

/** Codes have one bit more than the least for each of these that the norm's code reaches, counted
 *  from the threshold. A code is 128 log2 of its norm; an offset is 128 log2 of the ratio of two
 *  gains 1/s(w)^2 - 1/s(w+1)^2, s(w) = 2^(w-1) - 1, of w = 2 and of w = 2 .. 7: so the gain of a
 *  bit counts in proportion to the norm itself (docs/decisions/0030-adaptive-widths.md). */
inline constexpr uint32_t kWidthSteps = kWidthMax - kWidthMin;
GQ_HD constexpr int32_t width_offset(uint32_t step) {
  constexpr int32_t kOffsets[kWidthSteps] = {0, 421, 742, 1028, 1298, 1561};
  return kOffsets[step];
}

/** Blocks of norm 0, and those that are poisoned, have no codes. */
GQ_HD bool has_codes(uint16_t norm) { return norm != 0 && norm <= kNormCodeMax; }

/** Bits beyond the least that a block of this norm gets. */
GQ_HD uint32_t extra_bits(uint16_t norm, int32_t threshold) {
  uint32_t bits = 0;
  GQ_UNROLL for (uint32_t k = 0; k < kWidthSteps; ++k) {
    bits += norm >= threshold + width_offset(k) ? 1 : 0;
  }
  return bits;
}

/** Whether the next lower threshold would give the block one bit more. */
GQ_HD bool is_next(uint16_t norm, int32_t threshold) {
  bool next = false;
  GQ_UNROLL for (uint32_t k = 0; k < kWidthSteps; ++k) {
    next = next || norm == threshold - 1 + width_offset(k);
  }
  return next;
}

/** Below the least code of a norm and all offsets: every block has the largest width. */
inline constexpr int32_t kThresholdMin = -width_offset(kWidthSteps - 1);

}  // namespace gq

#endif
