// Exponential codes by whole words, as a device computes them: the functions of exponential.h for
// one lane, applied to all lanes of a word at once. The bits are the same
// (tests/unit/kernels/words_test.cpp).
#ifndef GQ_KERNELS_CODEC_EXPONENTIAL_WORDS_H
#define GQ_KERNELS_CODEC_EXPONENTIAL_WORDS_H

#include "kernels/codec/exponential.h"
#include "kernels/codec/words.h"

namespace gq {

inline constexpr uint32_t kByteSigns = 0x80808080u;
inline constexpr uint32_t kByteCodes = 0x7f7f7f7fu;
inline constexpr uint32_t kByteOnes = 0x01010101u;

/** All bits of the bytes whose leading bit is set, none of the others. */
GQ_HD uint32_t spread_signs(uint32_t bytes) { return byte_permute(bytes, 0, 0xba98); }

/** r(e) of a value, out of the word that it shares. Its leading byte has 7 bits, whose sign, none,
 *  fills the byte above. */
GQ_HD uint32_t uniform_in(uint32_t random_word, uint32_t value) {
  const uint32_t third = (value + 3) % 4, second = 4 + (value + 2) % 4, first = 4 + (value + 1) % 4;
  return byte_permute(random_word & kByteCodes, random_word,
                      (8 + third) << 12 | third << 8 | second << 4 | first);
}

/** The numbers of the highest bits of R(e), 31 less its leading zeros, added up an byte apart.
 * Where R(e) is 0 it is -1, and the bytes are right again once something has been added to each.
 */
GQ_HD uint32_t highest_bits(uint32_t random_word) {
  uint32_t sum = 0;
  GQ_UNROLL for (uint32_t e = 0; e < kWordValues; ++e) {
    sum += highest_bit(value_bits(random_word, e)) << (8 * e);
  }
  return sum;
}

/** exponential_sum of the four lanes of two words. Lanes use seven bits for a number, so that the
 *  eighth catches what a comparison carries: no byte reaches into the next. */
GQ_HD uint32_t exponential_sum_word(uint32_t a, uint32_t b, uint32_t random_word) {
  const uint32_t differ = a ^ b;
  const uint32_t a_leads = spread_signs((a | kByteSigns) - (b & kByteCodes));
  const uint32_t larger = merged_bits(a_leads, a, b);
  const uint32_t smaller = (larger ^ differ) & kByteCodes;
  const uint32_t gap = (larger & kByteCodes) - smaller;
  const uint32_t opposite = (differ & kByteSigns) >> 7;
  // In the leading bits: zeros + opposite >= gap; the smaller is not zero; the larger is the top.
  const uint32_t reaches = (128 + 31) * kByteOnes - highest_bits(random_word) - gap + opposite;
  const uint32_t counts = smaller + kByteCodes;
  const uint32_t is_top = (larger & kByteCodes) + kByteOnes;
  const uint32_t moves = reaches & counts & (differ | ~is_top) & kByteSigns;
  // One less is the complement of one more than the complement.
  const uint32_t down = spread_signs(differ);
  const uint32_t remains = spread_signs((gap + kByteCodes) | ~differ);  // not +c - c
  return (((larger ^ down) + (moves >> 7)) ^ down) & remains;
}

/** An AverageOutcome as a signed number to which r(e) is added: bits 24 and up of the sum are the
 *  code, modulo 16, as a signed number. A negative sum has its levels, and with them the threshold,
 *  the other way round, which is what mirrors its uniform. */
GQ_HD uint32_t average_addend(const AverageOutcome& outcome) {
  const uint32_t carry = 1u << 24;
  const uint32_t positive = (outcome.low << 24) + carry - outcome.threshold;
  const uint32_t above = carry - (1u << kUniformBits);  // between the carry and all uniforms
  const uint32_t negative = ((15 - outcome.low) << 24) + above + outcome.threshold;
  return outcome.negative ? negative : positive;
}

/** Whether the leading 7 bits of r(e) decide averages of these weights, the lower ones of
 * thresholds being 0. Weights 1:1 and 3:1 make sums of 2 and 4 units, and D, at most V(6) of them,
 * is 2^7. */
GQ_HD constexpr bool average_is_short(uint32_t weight_a, uint32_t weight_b) {
  return weight_a == weight_b || weight_a == 3 * weight_b || weight_b == 3 * weight_a;
}

/** An AverageOutcome with a threshold of 7 bits as two bytes. The first is added to the leading 7
 *  bits of r(e). The third has a lane, and above it what changes of the lane where the sum is 2^7
 *  or more: that is the code farther from -C, which for a negative sum is the lower one. */
GQ_HD uint32_t short_average(const AverageOutcome& outcome) {
  const uint32_t sign = outcome.negative << 3;
  const uint32_t low = outcome.low | (outcome.low == 0 ? 0 : sign);
  const uint32_t high = ((outcome.low + 1) | sign) & 15;
  const uint32_t threshold = outcome.threshold >> (kUniformBits - 7);
  const uint32_t lane = outcome.negative ? high : low;
  const uint32_t addend = outcome.negative ? threshold : 128 - threshold;
  return (low ^ high) << 20 | lane << 16 | addend;
}

/** Lanes of eight signed numbers -7..7. */
GQ_HD uint32_t lanes_of_signed(uint32_t numbers) {
  const uint32_t negative = (numbers >> 3) & 0x11111111u;
  return (numbers ^ (negative * 7)) + negative;
}

/** Eight averages of 4-bit codes. `addend(e)` is average_addend of value e's pair; values 0..3
 * share the random word `low`, the others `high`. */
template <typename Addend>
GQ_HD uint32_t exponential_average_word(uint32_t low, uint32_t high, Addend addend) {
  uint32_t sum[8];
  GQ_UNROLL for (uint32_t e = 0; e < 8; ++e) {
    sum[e] = addend(e) + uniform_in(e < 4 ? low : high, e);
  }
  // Signed codes as bytes: those of values 0, 2, 4, 6, and of 1, 3, 5, 7.
  const uint32_t even = leading_bytes(sum[0], sum[2], sum[4], sum[6]);
  const uint32_t odd = leading_bytes(sum[1], sum[3], sum[5], sum[7]);
  return lanes_of_signed(joined_lanes(even, odd));
}

/** The same where average_is_short; `outcome(e)` is short_average of value e's pair. Byte
 *  (e + 3) mod 4 of a random word begins with the leading 7 bits of r(e). */
template <typename Outcome>
GQ_HD uint32_t short_average_word(uint32_t low, uint32_t high, Outcome outcome) {
  const uint32_t of_02 = outcome(0) + (outcome(2) << 8), of_13 = outcome(1) + (outcome(3) << 8);
  const uint32_t of_46 = outcome(4) + (outcome(6) << 8), of_57 = outcome(5) + (outcome(7) << 8);
  const uint32_t sum_low = (low & kByteCodes) + byte_permute(of_02, of_13, 0x0514);
  const uint32_t sum_high = (high & kByteCodes) + byte_permute(of_46, of_57, 0x0514);
  // Bytes of values 0, 2, 4, 6, and of 1, 3, 5, 7.
  const uint32_t even = byte_permute(of_02, of_46, 0x7632);
  const uint32_t odd = byte_permute(of_13, of_57, 0x7632);
  const uint32_t even_change = byte_permute(sum_low, sum_high, 0xdf9b);  // all bits or none
  const uint32_t odd_change = byte_permute(sum_low, sum_high, 0xeca8);
  return merged_bits(0x0f0f0f0fu, even ^ ((even >> 4) & even_change),
                     (odd << 4) ^ (odd & odd_change));
}

/** Both factors in one, if they can be. What is below half a unit in the last place of the smallest
 *  level is 0 in the end. */
GQ_HD Scale folded_exponential_scale(const Scale& scale) {
  return folded(scale, power_of_two(kSmallestLevelExponent - 25));
}

/** What exponential_at_23 makes of the target, with the largest uniform number. */
template <uint32_t kMantissaBits>
GQ_HD uint32_t exponential_top_pattern(const Scale& scale) {
  return float_bits(exponential_number(scale.target)) + (kUniformMask >> kMantissaBits);
}

/** exponential_pattern of a value that was multiplied by the power already. The target cuts what is
 *  beyond it at last: patterns are ordered as their numbers, infinity and NaN included, and no
 *  uniform number carries that of the target over. */
template <uint32_t kMantissaBits, bool kNearest>
GQ_HD uint32_t exponential_bounded(float value, const Scale& scale, uint32_t top, uint32_t bits) {
  const uint32_t negative = 0u - (float_bits(value) >> 31);
  const float w = exponential_number(magnitude(value) * scale.factor);
  const uint32_t uniform = mirrored_uniform_of<kNearest>(bits, negative) >> kMantissaBits;
  const uint32_t pattern = unsigned_pattern(w) + uniform;
  return pattern < top ? pattern : top;
}

/** The code of such a value from bit 23 on, 64 too large if there are no mantissa bits. */
template <uint32_t kMantissaBits, bool kNearest>
GQ_HD uint32_t exponential_at_23(float value, const Scale& scale, uint32_t top, uint32_t bits) {
  const uint32_t pattern = exponential_bounded<kMantissaBits, kNearest>(value, scale, top, bits);
  return kMantissaBits > 0 ? (pattern << kMantissaBits) & 0x7fffffffu : pattern;
}

/** A word of lanes. `from` has codes as exponential_at_23 makes them, and `value` whatever they
 * were made of, for its signs; zero has none. */
template <uint32_t kBits, uint32_t kMantissaBits>
GQ_HD uint32_t exponential_word(const uint32_t (&from)[32 / kBits],
                                const uint32_t (&value)[32 / kBits]) {
  const uint32_t packed = packed_lanes<kBits>(from);
  if constexpr (kBits == 8) {
    const uint32_t codes = kMantissaBits > 0 ? packed : packed - kSmallestLevelField * kByteOnes;
    const uint32_t nonzero = codes + kByteCodes;  // in the leading bits
    const uint32_t signs = leading_bytes(value[0], value[1], value[2], value[3]);
    return codes | (signs & nonzero & kByteSigns);
  } else {
    const uint32_t even = leading_bytes(value[0], value[2], value[4], value[6]);
    const uint32_t odd = leading_bytes(value[1], value[3], value[5], value[7]);
    const uint32_t signs = merged_bits(0x0f0f0f0fu, even >> 4, odd);
    const uint32_t nonzero = packed + 0x77777777u;
    return packed | (signs & nonzero & 0x88888888u);
  }
}

/** Four lanes as float32, those of 4 bits from the lower half of `lanes`: codes are exponents, and
 *  those with mantissa bits the leading bits of mantissas, too. So the level of 1 is 2^(c - 127) of
 *  its code c, or 2^-96: what is below the smallest power of two with mantissa bits is denormal. */
template <uint32_t kBits, uint32_t kMantissaBits>
GQ_HD void exponential_powers(uint32_t lanes, float (&power)[4]) {
  uint32_t even, odd;  // the upper halves of two patterns each
  if constexpr (kBits == 8) {
    constexpr uint32_t kShift = 7 - kMantissaBits, kCodes = 0x007f007fu << kShift;
    even = merged_bits(0x80008000u, lanes << 8, (lanes << kShift) & kCodes);
    odd = merged_bits(0x80008000u, lanes, (lanes >> (8 - kShift)) & kCodes);
  } else {
    const uint32_t codes = lanes & 0x7777u;
    const uint32_t positive = byte_permute(0x40404040u, 0x40404040u, lanes);  // in bit 6
    const uint32_t upper =
        merged_bits(kByteSigns, ~(positive << 1), byte_permute(0x01010000u, 0x03030202u, codes));
    const uint32_t lower = byte_permute(0x80008000u, 0x80008000u, codes);
    even = byte_permute(lower, upper, 0x6240);
    odd = byte_permute(lower, upper, 0x7351);
  }
  power[0] = float_from_bits(even << 16);
  power[1] = float_from_bits(odd << 16);
  power[2] = float_from_bits(even & 0xffff0000u);
  power[3] = float_from_bits(odd & 0xffff0000u);
}

/** The levels of four 4-bit lanes, the lower half of `lanes`, as bytes: 64 for that of code 7, and
 *  64 added. A lane with a sign chooses the sign of a byte, which is 0. */
GQ_HD uint32_t exponential_bytes(uint32_t lanes) {
  const uint32_t positive = byte_permute(0x04020100u, 0x40201008u, lanes);
  const uint32_t negative = byte_permute(0x04020100u, 0x40201008u, lanes ^ 0x8888u);
  return positive - negative + 64 * kByteOnes;
}

}  // namespace gq

#endif
