// The element types of user buffers: how each becomes a float32, and a float32 each
// (docs/FORMAT.md, sections 3, 8 and 9).
#ifndef GQ_KERNELS_CODEC_NARROW_H
#define GQ_KERNELS_CODEC_NARROW_H

#include "kernels/codec/scale.h"

namespace gq {

inline constexpr uint32_t kHalfInfinityBits = 0x7c00u;
inline constexpr uint32_t kHalfNanBits = 0x7e00u;
inline constexpr uint32_t kHalfMaxAsFloatBits = 0x477fe000u;  ///< 65504
inline constexpr uint32_t kBfloatInfinityBits = 0x7f80u;
inline constexpr uint32_t kBfloatNanBits = 0x7fc0u;
inline constexpr uint32_t kBfloatMaxAsFloatBits = 0x7f7f0000u;
inline constexpr uint64_t kDoubleNanBits = 0x7ff8000000000000ull;

/** Exact. Denormals are made by a subtraction of normal numbers. */
GQ_HD float half_to_float(uint16_t half) {
  const uint32_t magnitude = (half & 0x7fffu) << 13;
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t exponent = magnitude & 0x0f800000u;
  const float denormal = float_from_bits(magnitude + (113u << 23)) - power_of_two(-14);
  const uint32_t bias = exponent == 0x0f800000u ? 224u << 23 : 112u << 23;
  return float_from_bits(sign | (exponent == 0 ? float_bits(denormal) : magnitude + bias));
}

GQ_HD float bfloat_to_float(uint16_t bfloat) {
  return float_from_bits(static_cast<uint32_t>(bfloat) << 16);
}

/** A magnitude on the grid of float16: the code of the neighbour below, and the distance from it to
 *  the one above in units of 2^-32, rounded down. */
struct HalfPlace {
  uint32_t below;
  uint32_t distance;
};

/** `chosen` or 0, without a branch: loops over values stay straight. */
GQ_HD uint32_t only_if(bool condition, uint32_t chosen) {
  return chosen & (0u - static_cast<uint32_t>(condition));
}

/** For magnitudes up to 2^16. Denormals of float16 are multiples of 2^-24: 24 bits of significand,
 *  `shift` = 126 - exponent field of them behind the point, 14 or more. */
GQ_HD HalfPlace half_place(uint32_t magnitude) {
  const uint32_t field = magnitude >> 23;
  const uint32_t exponent = field + (field == 0);
  const uint32_t significand = (magnitude & 0x7fffffu) | static_cast<uint32_t>(field != 0) << 23;
  const uint32_t shift = 126 - exponent;
  const uint32_t whole = only_if(shift < 32, significand >> (shift & 31));
  const uint32_t near = only_if(shift <= 32, significand << ((32 - shift) & 31));
  const uint32_t far = only_if(shift - 33 < 31, significand >> ((shift - 32) & 31));
  const bool normal = exponent >= 113;
  return HalfPlace{only_if(normal, (magnitude >> 13) - (112u << 10)) | only_if(!normal, whole),
                   only_if(normal, magnitude << 19) | only_if(!normal, near | far)};
}

/** Whether a number this far (in 2^-32) above its lower neighbour goes up. `bits` is R(e). */
GQ_HD uint32_t rounds_up(uint32_t distance, uint32_t bits) {
  return distance + bits < bits;  // The sum wrapped: it reached 2^32.
}

/** The same for nearest, ties to even. */
GQ_HD uint32_t rounds_to_even(uint32_t distance, uint32_t below) {
  return distance > 0x80000000u - (below & 1);
}

/** Puts the sign back; a zero loses it. A NaN has one pattern. */
GQ_HD uint16_t narrow_pattern(uint32_t magnitude, uint32_t float_pattern, uint32_t nan) {
  const uint32_t sign = only_if(magnitude != 0, (float_pattern >> 16) & 0x8000u);
  const bool is_nan = (float_pattern & kMagnitudeMask) > kFloatInfinityBits;
  return static_cast<uint16_t>(is_nan ? nan : magnitude | sign);
}

/** kNearest: to nearest even, as IEEE 754 does, so that 65520 is the first to become infinite. Else
 *  at random, and everything above the largest finite number becomes infinite. */
template <bool kNearest>
GQ_HD uint16_t float_to_half(float value, uint32_t bits) {
  const uint32_t pattern = float_bits(value);
  const uint32_t magnitude = pattern & kMagnitudeMask;
  const uint32_t capped = magnitude < 0x47800000u ? magnitude : 0x47800000u;  // 2^16: infinity
  const HalfPlace place = half_place(capped);
  const uint32_t up =
      kNearest ? rounds_to_even(place.distance, place.below) : rounds_up(place.distance, bits);
  const bool infinite = !kNearest && magnitude > kHalfMaxAsFloatBits;
  const uint32_t rounded = infinite ? kHalfInfinityBits : place.below + up;
  return narrow_pattern(rounded, pattern, kHalfNanBits);
}

/** For patterns of numbers that stay finite: their lower half and the upper half of R(e), or what
 *  rounds to nearest, carry into their upper half. */
template <bool kNearest>
GQ_HD uint16_t finite_to_bfloat(uint32_t pattern, uint32_t bits) {
  const uint32_t is_odd = (pattern >> 16) & 1;
  const uint32_t rounded = pattern + (kNearest ? 0x7fffu + is_odd : bits >> 16);
  return static_cast<uint16_t>(only_if((rounded & 0x7fff0000u) != 0, rounded >> 16));
}

/** Whether they do: rounding at random makes everything above the largest number infinite. */
template <bool kNearest>
GQ_HD bool is_finite_as_bfloat(uint32_t pattern) {
  const uint32_t magnitude = pattern & kMagnitudeMask;
  return kNearest ? magnitude < kFloatInfinityBits : magnitude <= kBfloatMaxAsFloatBits;
}

template <bool kNearest>
GQ_HD uint16_t float_to_bfloat(float value, uint32_t bits) {
  const uint32_t pattern = float_bits(value);
  if (is_finite_as_bfloat<kNearest>(pattern)) return finite_to_bfloat<kNearest>(pattern, bits);
  return narrow_pattern(kBfloatInfinityBits, pattern, kBfloatNanBits);
}

/** One NaN for all: which pattern an operation makes depends on the machine. */
GQ_HD float canonical(float value) {
  return value == value ? value : float_from_bits(kFloatNanBits);
}

}  // namespace gq

#endif
