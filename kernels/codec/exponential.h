// Exponential levels, zero and powers of two, perhaps with mantissa bits: encode, sum, average,
// decode (docs/FORMAT.md, sections 5 to 8). A lane holds sign << (bits - 1) | c; c = 0 is zero and
// has no sign.
#ifndef GQ_KERNELS_CODEC_EXPONENTIAL_H
#define GQ_KERNELS_CODEC_EXPONENTIAL_H

#include "kernels/codec/formats.h"
#include "kernels/codec/random.h"
#include "kernels/codec/scale.h"

namespace gq {

/** The level of code c is 2^(c - 1) smallest levels; the smallest is 2^-63 while encoding, far from
 *  both denormals and infinity for every c up to 127 + 1. */
inline constexpr int32_t kSmallestLevelExponent = -63;
inline constexpr uint32_t kSmallestLevelField = 127 - 63;

/** What the largest code stands for above the power of two below it: V in docs/FORMAT.md. */
GQ_HD float exponential_top(uint32_t mantissa_bits) {
  return 2 - power_of_two(-static_cast<int32_t>(mantissa_bits));
}

/** The norm becomes code C - headroom. */
GQ_HD Scale exponential_scale(float norm, uint32_t bits, uint32_t headroom,
                              uint32_t mantissa_bits) {
  const int32_t octave = static_cast<int32_t>(code_max(bits) >> mantissa_bits) - 1;
  const int32_t top = octave - static_cast<int32_t>(headroom) + kSmallestLevelExponent;
  return scale_for(norm, exponential_top(mantissa_bits) * power_of_two(top));
}

/** y and the larger of y and the smallest level: that doubles y, and makes the octave between zero
 *  and the smallest power of two linear too, without a denormal. */
GQ_HD float exponential_number(float y) {
  const uint32_t smallest = kSmallestLevelField << 23;  // Patterns are ordered as their numbers.
  return y + float_from_bits(float_bits(y) > smallest ? float_bits(y) : smallest);
}

/** The pattern of which the bits from 23 - kMantissaBits on are the code and that of the smallest
 *  level's octave; `bits` is R(e), `negative` all ones for a value below zero. Adding a uniform
 * number to a pattern carries into the code with probability distance from the level below /
 * interval: the mantissa, or what is left of it behind the code's own bits.
 */
template <uint32_t kMantissaBits, bool kNearest>
GQ_HD uint32_t exponential_pattern(float value, const Scale& scale, uint32_t bits,
                                   uint32_t negative) {
  const float w = exponential_number(scaled_magnitude(value, scale));
  return float_bits(w) + (mirrored_uniform_of<kNearest>(bits, negative) >> kMantissaBits);
}

/** Rounds to one of the two neighbouring levels. The lane may hold a negative zero. */
template <uint32_t kBits, uint32_t kMantissaBits, bool kNearest>
GQ_HD Byte exponential_round(float value, const Scale& scale, uint32_t bits) {
  const uint32_t negative = 0u - (float_bits(value) >> 31);
  const uint32_t pattern =
      exponential_pattern<kMantissaBits, kNearest>(value, scale, bits, negative);
  const uint32_t c = (pattern >> (23 - kMantissaBits)) - (kSmallestLevelField << kMantissaBits);
  return static_cast<Byte>(c | (negative & (1u << (kBits - 1))));
}

/** A lane as it is stored: zero has no sign. */
template <uint32_t kBits>
GQ_HD Byte without_negative_zero(Byte lane) {
  const Byte nonzero = static_cast<Byte>(0 - ((lane & code_max(kBits)) != 0));
  return lane & nonzero;
}

/** Sum of two 8-bit lanes in code form (paper, Algorithm 2). The event of probability 2^-k, R(e) <
 *  2^(32-k), is: R(e) has at least k leading `zeros`. Bytes and single choices throughout, so that
 *  one register holds as many values as it has bytes. */
GQ_HD Byte exponential_sum(Byte a, Byte b, Byte zeros) {
  const Byte ca = a & 0x7f, cb = b & 0x7f;
  const Byte larger = ca > cb ? ca : cb;
  const Byte smaller = ca > cb ? cb : ca;
  const Byte sign = static_cast<Byte>((ca > cb ? a : b) & 0x80);
  const Byte gap = static_cast<Byte>(larger - smaller);
  const Byte differ = a ^ b;
  const Byte opposite = static_cast<Byte>(differ >> 7);
  const Byte reach = static_cast<Byte>(zeros + opposite);
  const Byte moved = static_cast<Byte>(larger + 1 - 2 * opposite);
  const Byte bounded = moved > 0x7f ? static_cast<Byte>(0x7f) : moved;
  const Byte chosen = reach >= gap ? bounded : larger;
  const Byte c = smaller == 0 ? larger : chosen;
  const bool cancels = differ == 0x80;  // Equal magnitudes of opposite signs; zeros have no sign.
  return cancels ? static_cast<Byte>(0) : static_cast<Byte>(sign | c);
}

/** What the 4-bit average of two codes is: code `low`, or the next if the mirrored uniform reaches
 *  `threshold` (2^23: never). */
struct AverageOutcome {
  uint32_t negative;
  uint32_t low;
  uint32_t threshold;
};

GQ_HD int64_t exponential_level(uint32_t c) {
  return c == 0 ? 0 : static_cast<int64_t>(1) << (c - 1);
}

/** Weighted mean of two 4-bit lanes, weights adding up to at most 2^20: exact in 64 bits. */
GQ_HD AverageOutcome exponential_average_outcome(uint32_t a, uint32_t b, uint32_t weight_a,
                                                 uint32_t weight_b) {
  const int64_t value_a = exponential_level(a & 7) * (a & 8 ? -1 : 1);
  const int64_t value_b = exponential_level(b & 7) * (b & 8 ? -1 : 1);
  const int64_t sum = value_a * weight_a + value_b * weight_b;
  const int64_t magnitude = sum < 0 ? -sum : sum;
  const int64_t total = static_cast<int64_t>(weight_a) + weight_b;
  uint32_t low = 0;
  while (low < 7 && exponential_level(low + 1) * total <= magnitude) ++low;
  const int64_t excess = magnitude - exponential_level(low) * total;
  const int64_t width = (exponential_level(low + 1) - exponential_level(low)) * total;
  // excess * 2^23 + uniform * width >= width * 2^23, solved for the uniform.
  const int64_t missing = (width - excess) << kUniformBits;
  const uint32_t threshold = static_cast<uint32_t>((missing + width - 1) / width);
  return AverageOutcome{sum < 0 ? 1u : 0u, low, threshold};
}

GQ_HD uint32_t exponential_average(const AverageOutcome& outcome, uint32_t bits) {
  const uint32_t uniform = mirrored_uniform_of<false>(bits, 0u - outcome.negative);
  const uint32_t c = outcome.low + (uniform >= outcome.threshold ? 1 : 0);
  return c | (c == 0 ? 0 : outcome.negative << 3);
}

/** +-2^(c - one), +0 for c = 0: the level with code `one` as 1. c - one lies in -126..127. In
 * bytes as long as possible: sign and exponent are the upper half of a float32. */
template <uint32_t kBits>
GQ_HD uint16_t exponential_level_upper(Byte lane, Byte one) {
  const Byte c = lane & code_max(kBits);
  const Byte nonzero = static_cast<Byte>(0 - (c != 0));  // all bits or none
  const Byte exponent = static_cast<Byte>((c + 127 - one) & nonzero);
  const Byte sign = static_cast<Byte>(lane << (8 - kBits)) & 0x80;
  return static_cast<uint16_t>(sign << 8 | exponent << 7);
}

/** The same for 8 bits with 2 mantissa bits, where the largest power of two is 1: code c is
 *  (1 + (c mod 4) / 4) 2^(c div 4 - 31), and c 2^-32 below the smallest of these. Exponent and
 *  mantissa bits together are c + 384, less 4 - c for c < 4 and 2 more for c = 1: always more than
 *  255, so that bytes do again. */
GQ_HD uint16_t exponential_fine_upper(Byte lane) {
  const Byte c = lane & 0x7f;
  const Byte nonzero = static_cast<Byte>(0 - (c != 0));  // all bits or none
  const Byte small = c < 4 ? c : static_cast<Byte>(4);
  const Byte is_one = static_cast<Byte>(c == 1);
  const Byte low = static_cast<Byte>(c + (384 - 256 - 4) + small - is_one - is_one);
  const Byte exponent = static_cast<Byte>((0x20 | low >> 3) & nonzero);
  const Byte mantissa = static_cast<Byte>((low << 5) & 0xe0 & nonzero);
  return static_cast<uint16_t>(((lane & 0x80) | exponent) << 8 | mantissa);
}

GQ_HD float float_from_upper(uint16_t upper) {
  return float_from_bits(static_cast<uint32_t>(upper) << 16);
}

/** What a level of 1 stands for in the result. Codes that were added already count every rank,
 * those that were averaged or added wide stand for the mean. */
GQ_HD float exponential_unit(float scale, bool added, bool mean, uint32_t ranks,
                             uint32_t mantissa_bits) {
  if (added) return static_cast<float>(static_cast<double>(scale) / (mean ? ranks : 1));
  return step_for(scale, mean ? 1 : ranks, exponential_top(mantissa_bits));
}

}  // namespace gq

#endif
