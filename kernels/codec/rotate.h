// The randomised Hadamard rotation (docs/FORMAT.md, section 12): signs that all ranks share, and
// sums and differences in one order, so that it gives the same bits everywhere.
#ifndef GQ_KERNELS_CODEC_ROTATE_H
#define GQ_KERNELS_CODEC_ROTATE_H

#include "kernels/codec/formats.h"
#include "kernels/codec/narrow.h"
#include "kernels/codec/random.h"

namespace gq {

/** Signs in one random word, and values whose signs one counter serves. */
inline constexpr uint32_t kSignsPerWord = 32;
inline constexpr uint32_t kSignGroupValues = 4 * kSignsPerWord;

/** The sign bit of value e, from word e div 32 of its rotation's signs; set means negative. */
GQ_HD uint32_t rotation_sign(uint32_t word, uint32_t value) {
  return (word << (kSignsPerWord - 1 - value % kSignsPerWord)) & 0x80000000u;
}

/** What a value enters the sums as: 1024 of these add up to the largest float32 at most. */
GQ_HD float rotation_in(float value, uint32_t sign) {
  return float_from_bits(float_bits(value * 0x1p-10f) ^ sign);
}

/** What a sum leaves them as on the way back. */
GQ_HD float rotation_out(float sum, uint32_t sign) {
  return canonical(float_from_bits(float_bits(sum) ^ sign) + 0.0f);  // no negative zero
}

/** The product of the Hadamard matrix with kRotationValues values: log2 of that many stages. */
GQ_HD void hadamard(float* value) {
  for (uint32_t distance = 1; distance < kRotationValues; distance *= 2) {
    for (uint32_t k = 0; k < kRotationValues; ++k) {
      if ((k & distance) != 0) continue;
      const float a = value[k], b = value[k + distance];
      value[k] = a + b;
      value[k + distance] = a - b;
    }
  }
}

}  // namespace gq

#endif
