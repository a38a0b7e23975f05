// Linear levels -s..s: encode, average, decode (docs/FORMAT.md, sections 5 to 8). A lane holds
// code + s; exact sums are additions of whole words and need nothing from here.
#ifndef GQ_KERNELS_CODEC_LINEAR_H
#define GQ_KERNELS_CODEC_LINEAR_H

#include "kernels/codec/random.h"
#include "kernels/codec/scale.h"
#include "kernels/codec/words.h"

namespace gq {

/** The scale for t * 2^23. The power of two is in the factors from the start: it changes no
 * rounding but of a t below 2^-126, which becomes 0 either way. */
GQ_HD Scale linear_scale(float norm, uint32_t steps) {
  const float unit = static_cast<float>(1u << kUniformBits);
  const Scale scale = scale_for(norm, static_cast<float>(steps));
  return Scale{scale.power, scale.factor * unit, scale.target * unit};
}

/** floor(t + u) + s, where t = x * s / norm in -s..s and u = r(e) / 2^23; `bits` is R(e). */
template <bool kNearest>
GQ_HD uint32_t linear_encode(float value, const Scale& scale, uint32_t steps, uint32_t bits) {
  const int32_t scaled = nearest_integer(scaled_value(value, scale));
  const int32_t uniform = static_cast<int32_t>(uniform_of<kNearest>(bits));
  const int32_t code = (scaled + uniform) >> kUniformBits;
  return static_cast<uint32_t>(code + static_cast<int32_t>(steps));
}

/** Both factors in one, if they can be. What is below half a unit is 0 in the end. */
GQ_HD Scale folded_linear_scale(const Scale& scale) { return folded(scale, 0.25f); }

/** What linear_at_24 adds: s from bit 24 on and behind it the uniform number, r(e). */
GQ_HD uint32_t linear_addend(uint32_t uniform, uint32_t steps) {
  return 2 * uniform + (steps << (kUniformBits + 1));
}

/** The same out of the word that value e shares, but for bit 0, from which nothing is carried: R(e)
 *  one bit further left is the word's bytes in another order once all of it is. */
GQ_HD uint32_t linear_addend_in(uint32_t random_word, uint32_t value, uint32_t steps) {
  const uint32_t first = (value + 1) % 4, second = (value + 2) % 4, third = (value + 3) % 4;
  return byte_permute(rotate_right(random_word, 31), steps,
                      4 << 12 | third << 8 | second << 4 | first);
}

/** linear_encode of a value that was multiplied by the power already, from bit 24 on: an byte. */
GQ_HD uint32_t linear_at_24(float value, const Scale& scale, uint32_t addend) {
  const float scaled = within(value * scale.factor, scale.target);
  return 2 * static_cast<uint32_t>(nearest_integer(scaled)) + addend;
}

/** A word of lanes, each of which is the leading byte of a word. */
template <uint32_t kBits>
GQ_HD uint32_t linear_word(const uint32_t (&from)[32 / kBits]) {
  if constexpr (kBits == 8) {
    return leading_bytes(from[0], from[1], from[2], from[3]);
  } else {  // Bytes are below 16.
    return leading_bytes(from[0], from[2], from[4], from[6]) +
           16 * leading_bytes(from[1], from[3], from[5], from[7]);
  }
}

/** Weights of the two operands of an average, and the division by their sum W <= 2^20 as a
 *  multiplication. `magic` is 2^(32+shift) / W rounded up by less than 1 with 2^shift <= W / 2, so
 *  the quotient of num < 2^8 W is right: the error num / 2^(32+shift) stays below 1 / W while
 *  2^8 W^2 < 2^(32+shift), and W < 2^(shift+2) <= 2^22. */
struct Average {
  uint32_t weight_a;
  uint32_t weight_b;
  uint32_t total;
  uint32_t magic;
  uint32_t shift;
};

GQ_HD Average average_of(uint32_t weight_a, uint32_t weight_b) {
  const uint32_t total = weight_a + weight_b;
  const uint32_t shift = 30 - leading_zeros(total);
  const uint64_t magic = (1ull << (32 + shift)) / total + 1;
  return Average{weight_a, weight_b, total, static_cast<uint32_t>(magic), shift};
}

/** The randomly rounded weighted mean of two lanes; `bits` is R(e) of the reduction. */
GQ_HD uint32_t linear_average(uint32_t a, uint32_t b, const Average& average, uint32_t bits) {
  const uint32_t sum = average.weight_a * a + average.weight_b * b + mulhi(bits, average.total);
  return mulhi(sum, average.magic) >> average.shift;
}

/** The mean of two words of lanes, rounded down, or up where `up`, in lanes' lowest bits, is set. a
 * and b have in common what is twice in their sum; a half is one of what they have not. */
GQ_HD uint32_t mean_of_lanes(uint32_t a, uint32_t b, uint32_t not_lowest, uint32_t up) {
  return (((a ^ b) & not_lowest) >> 1) + majority_bits(a, b, up);
}

/** The same with equal weights for the four 8-bit lanes of a word at once: a half goes up where the
 *  leading bit of R(e) is set. That bit leads byte e mod 4 of the word that the four values
 * share.
 */
GQ_HD uint32_t linear_average_equal8(uint32_t a, uint32_t b, uint32_t random_word) {
  return mean_of_lanes(a, b, 0xfefefefeu, (random_word >> 7) & 0x01010101u);
}

/** The leading bits of eight bytes, four bits apart; for devices, which choose bytes at once. */
GQ_HD uint32_t leading_bits_by_bytes(uint32_t low, uint32_t high) {
  const uint32_t even = byte_permute(low, high, 0xeca8);  // all bits as the leading one
  const uint32_t odd = byte_permute(low, high, 0xfdb9);
  return merged_bits(0x0f0f0f0fu, even, odd) & 0x11111111u;
}

GQ_HD uint32_t leading_bits(uint32_t word) {
  return ((word >> 7) & 0x1u) | ((word >> 11) & 0x10u) | ((word >> 15) & 0x100u) |
         ((word >> 19) & 0x1000u);
}

GQ_HD uint32_t leading_bits(uint32_t low, uint32_t high) {
#if defined(__CUDA_ARCH__)
  return leading_bits_by_bytes(low, high);
#else
  return leading_bits(low) | leading_bits(high) << 16;
#endif
}

/** The same for the eight 4-bit lanes of a word; their values share two random words. */
GQ_HD uint32_t linear_average_equal4(uint32_t a, uint32_t b, uint32_t random_low,
                                     uint32_t random_high) {
  return mean_of_lanes(a, b, 0xeeeeeeeeu, leading_bits(random_low, random_high));
}

/** What one code is in the result, where lanes lie around `top`. */
GQ_HD float linear_step(float scale, uint32_t multiplier, uint32_t top) {
  return step_for(scale, multiplier, static_cast<float>(top));
}

GQ_HD float linear_decode(uint32_t lane, uint32_t top, float step) {
  return static_cast<float>(static_cast<int32_t>(lane) - static_cast<int32_t>(top)) * step;
}

/** The same for four lanes at once, those of 4 bits in the lower half of `lanes`: each becomes the
 *  last byte of 2^23, a float32. `middle` is 2^23 + top. */
template <uint32_t kBits>
GQ_HD void linear_decode_four(uint32_t lanes, float middle, float step, float (&value)[4]) {
  const uint32_t nibbles = merged_bits(0xffffu, lanes, lanes << 12) & 0x0f0f0f0fu;
  GQ_UNROLL for (uint32_t e = 0; e < 4; ++e) {
    const uint32_t byte = kBits == 8 || e % 3 == 0 ? e : 3 - e;  // nibbles: 0, 2, 1, 3
    const uint32_t pattern =
        byte_permute(kBits == 8 ? lanes : nibbles, float_bits(0x1p23f), 0x7440 + byte);
    value[e] = (float_from_bits(pattern) - middle) * step;
  }
}

/** The step of subtractive codes, which decode to half a step beyond the top code: there too a
 *  mean stays finite. */
GQ_HD float subtractive_step(float scale, uint32_t multiplier, uint32_t top) {
  const float step = linear_step(scale, multiplier, top);
  if (multiplier != 1) return step;
  const double most = static_cast<double>(float_from_bits(kFloatMaxBits)) / (top + 0.5);
  const float nearest = static_cast<float>(most);
  const float bound = float_from_bits(float_bits(nearest) - (nearest > most ? 1 : 0));
  return step < bound ? step : bound;
}

/** The code of floor(t + u), less u and plus a half: the error does not depend on t. `bits` is the
 *  same R(e) that encoded it. */
GQ_HD float subtractive_decode(uint32_t lane, uint32_t top, float step, uint32_t bits) {
  const int32_t code = static_cast<int32_t>(lane) - static_cast<int32_t>(top);
  const int32_t uniform = static_cast<int32_t>(uniform_of<false>(bits));
  const int32_t place = code * (1 << kUniformBits) - uniform + static_cast<int32_t>(kUniformHalf);
  return static_cast<float>(place) * 0x1p-23f * step;
}

/** The same for four lanes at once, `middle` as in linear_decode_four: what is left of a half is a
 *  float32, and a code is one, so that only their sum is rounded. */
template <uint32_t kBits>
GQ_HD void subtractive_decode_four(uint32_t lanes, float middle, float step, const uint32_t* bits,
                                   float (&value)[4]) {
  linear_decode_four<kBits>(lanes, middle, 1, value);
  GQ_UNROLL for (uint32_t e = 0; e < 4; ++e) {
    const float one_and_uniform = float_from_bits(float_bits(1.0f) | uniform_of<false>(bits[e]));
    value[e] = (value[e] + (1.5f - one_and_uniform)) * step;
  }
}

}  // namespace gq

#endif
