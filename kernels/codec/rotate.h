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

/** Values that are mixed with the first one, where `value_count` are left of a call: 1024, or the
 *  largest power of two that is no more than the codes left. */
GQ_HD uint32_t rotation_length(uint64_t value_count) {
  const uint64_t left = code_count(true, value_count);
  uint32_t length = kRotationValues;
  while (length > left) length /= 2;
  return length;
}

/** What values are multiplied with before they enter sums of `length`: the power of two that is
 *  nearest below 1/32 of an orthonormal rotation. So their sums are no larger than those of 1024,
 *  which may share a norm with them, and never beyond the largest float32. */
GQ_HD float rotation_shrink(uint32_t length) { return length > 256 ? 0x1p-10f : 0x1p-9f; }

GQ_HD float rotation_in(float value, uint32_t sign, uint32_t length) {
  return float_from_bits(float_bits(value * rotation_shrink(length)) ^ sign);
}

/** What sums are multiplied with on the way back: 1 / (length rotation_shrink(length)). */
GQ_HD float rotation_grow(uint32_t length) {
  if (length == kRotationValues) return 1;
  return length == kRotationValuesMin ? 4 : 2;
}

/** What a sum leaves them as on the way back. */
GQ_HD float rotation_out(float sum, uint32_t sign, uint32_t length) {
  const float grow = rotation_grow(length);
#if defined(__CUDA_ARCH__)
  // The same in fewer instructions: grow is a power of two, and NaN of an operation 0x7fffffff.
  const float out = __fmaf_rn(sum, float_from_bits(float_bits(grow) ^ sign), 0.0f);
  return __int_as_float(min(__float_as_int(out), static_cast<int32_t>(kFloatNanBits)));
#else
  return canonical(float_from_bits(float_bits(sum * grow) ^ sign) + 0.0f);  // no negative zero
#endif
}

/** Of `count` values, pairs that are `distance` apart become sums and differences. */
GQ_HD void add_pairs(float* value, uint32_t count, uint32_t distance) {
  for (uint32_t k = 0; k < count; ++k) {
    if ((k & distance) != 0) continue;
    const float a = value[k], b = value[k + distance];
    value[k] = a + b;
    value[k + distance] = a - b;
  }
}

/** The product of the Hadamard matrix with `length` values, a power of two: log2 of that many
 *  stages. */
GQ_HD void hadamard(float* value, uint32_t length) {
  for (uint32_t distance = 1; distance < length; distance *= 2) add_pairs(value, length, distance);
}

}  // namespace gq

#endif
