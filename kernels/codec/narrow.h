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

/** For magnitudes up to 65504. Denormals of float16 are multiples of 2^-24: 24 bits of significand
 *  shifted by 126 - exponent field. */
GQ_HD HalfPlace half_place(uint32_t magnitude) {
  const uint32_t exponent = magnitude >> 23;
  const uint32_t significand = (magnitude & 0x7fffffu) | (exponent == 0 ? 0 : 0x800000u);
  const uint32_t shift = exponent == 0 ? 63 : 126 - exponent < 63 ? 126 - exponent : 63;
  const uint64_t placed = (static_cast<uint64_t>(significand) << 32) >> (shift & 63);
  const bool normal = exponent >= 113;
  return HalfPlace{normal ? (magnitude >> 13) - (112u << 10) : static_cast<uint32_t>(placed >> 32),
                   normal ? magnitude << 19 : static_cast<uint32_t>(placed)};
}

/** Whether a number this far (in 2^-32) above its lower neighbour goes up. `bits` is R(e). */
GQ_HD uint32_t rounds_up(uint32_t distance, uint32_t bits) {
  return distance + bits < bits ? 1 : 0;  // The sum wrapped: it reached 2^32.
}

/** The same for nearest, ties to even. */
GQ_HD uint32_t rounds_to_even(uint32_t distance, uint32_t below) {
  return distance > 0x80000000u || (distance == 0x80000000u && (below & 1)) ? 1 : 0;
}

/** Puts the sign back. A zero loses it; infinity, in the pattern `nan` becomes, comes first. */
GQ_HD uint16_t with_sign(uint32_t magnitude, uint32_t float_pattern) {
  return static_cast<uint16_t>(magnitude == 0 ? 0 : magnitude | (float_pattern >> 31) << 15);
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
  return magnitude > kFloatInfinityBits ? static_cast<uint16_t>(kHalfNanBits)
                                        : with_sign(rounded, pattern);
}

template <bool kNearest>
GQ_HD uint16_t float_to_bfloat(float value, uint32_t bits) {
  const uint32_t pattern = float_bits(value);
  const uint32_t magnitude = pattern & kMagnitudeMask;
  const uint32_t below = magnitude >> 16;
  const uint32_t distance = magnitude << 16;
  const uint32_t up = kNearest ? rounds_to_even(distance, below) : rounds_up(distance, bits);
  const bool infinite = !kNearest && magnitude > kBfloatMaxAsFloatBits;
  const uint32_t rounded = infinite ? kBfloatInfinityBits : below + up;
  return magnitude > kFloatInfinityBits ? static_cast<uint16_t>(kBfloatNanBits)
                                        : with_sign(rounded, pattern);
}

/** One NaN for all: which pattern an operation makes depends on the machine. */
GQ_HD float canonical(float value) {
  return value == value ? value : float_from_bits(kFloatNanBits);
}

}  // namespace gq

#endif
