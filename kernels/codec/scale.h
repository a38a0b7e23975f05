// From values to level units: a norm and a target become two factors, so that a value as large as
// the norm meets the target exactly and none exceeds it (docs/FORMAT.md, section 5).
#ifndef GQ_KERNELS_CODEC_SCALE_H
#define GQ_KERNELS_CODEC_SCALE_H

#include "kernels/codec/portable.h"

namespace gq {

inline constexpr uint32_t kFloatInfinityBits = 0x7f800000u;
inline constexpr uint32_t kFloatNanBits = 0x7fc00000u;
inline constexpr uint32_t kFloatMaxBits = 0x7f7fffffu;
inline constexpr uint32_t kMagnitudeMask = 0x7fffffffu;

GQ_HD bool is_finite(float value) {
  return (float_bits(value) & kMagnitudeMask) < kFloatInfinityBits;
}

/** 2^exponent for -126..127. */
GQ_HD float power_of_two(int32_t exponent) {
  return float_from_bits(static_cast<uint32_t>(exponent + 127) << 23);
}

/** The factors of one norm. The power of two comes first: one factor alone would be denormal or
 *  infinite for norms near the ends of the range. */
struct Scale {
  float power;
  float factor;
  float target;
};

/** The factor is one ulp up where the quotient was rounded down too far: a plain one would miss the
 *  target in 2 to 15 % of norms. Without a branch, so that loops over norms stay straight. */
GQ_HD Scale scale_of_norm(float norm, float target) {
  int32_t exponent = static_cast<int32_t>(float_bits(norm) >> 23);
  exponent = exponent < 1 ? 1 : exponent;
  exponent = exponent > 253 ? 253 : exponent;
  const float power = power_of_two(127 - exponent);
  const float mantissa = norm * power;
  const float factor = target / mantissa;
  const uint32_t short_of = mantissa * factor < target ? 1 : 0;
  return Scale{power, float_from_bits(float_bits(factor) + short_of), target};
}

/** For any norm. One of zero, and one that is not finite, makes a zero of whatever it scales, NaN
 *  and infinity included: a target of 0 is the least and the most there is. */
GQ_HD Scale scale_for(float norm, float target) {
  const bool usable = norm > 0 && is_finite(norm);
  const Scale scale = scale_of_norm(usable ? norm : 1, target);
  return Scale{scale.power, usable ? scale.factor : 0, usable ? target : 0};
}

/** The same with both factors in one, and a power of 1, where that changes no code: products of at
 *  most `ignored` are as good as 0. The power rounds only what it makes denormal, and nothing if it
 *  is 1 or more; what it makes infinite is beyond the target either way. */
GQ_HD Scale folded(const Scale& scale, float ignored) {
  const float smallest = float_from_bits(1u << 23), factor = scale.power * scale.factor;
  const bool is_exact = scale.power >= 1 || scale.factor * smallest <= ignored;
  if (!is_exact || !(factor >= smallest) || !is_finite(factor)) return scale;
  return Scale{1, factor, scale.target};
}

/** |x|, on a device part of the instruction that takes it. */
GQ_HD float magnitude(float value) {
#if defined(__CUDA_ARCH__)
  return fabsf(value);
#else
  return float_from_bits(float_bits(value) & kMagnitudeMask);
#endif
}

/** |x| in level units, at most the target. */
GQ_HD float scaled_magnitude(float value, const Scale& scale) {
  const float scaled = magnitude(value) * scale.power * scale.factor;
  return at_most(scaled, scale.target);  // NaN becomes the target
}

/** The same with the sign of x: rounding is symmetric, so clamping both ends is the same. */
GQ_HD float scaled_value(float value, const Scale& scale) {
  const float scaled = value * scale.power * scale.factor;
  return within(scaled, scale.target);
}

/** A double as a float32 that is never infinite for a finite number. */
GQ_HD float bounded_float(double value) {
  const float rounded = static_cast<float>(value);
  return rounded > float_from_bits(kFloatMaxBits) ? float_from_bits(kFloatMaxBits) : rounded;
}

/** What one level is in the result: scale * multiplier / top, where `top` levels are the norm.
 *  Without a multiplier no value exceeds the scale, so a quotient that was rounded up may not make
 *  the top code infinite. */
GQ_HD float step_for(float scale, uint32_t multiplier, float top) {
  const float step = bounded_float(static_cast<double>(scale) * multiplier / top);
  const bool overflows = multiplier == 1 && !is_finite(top * step);
  return float_from_bits(float_bits(step) - (overflows ? 1 : 0));
}

}  // namespace gq

#endif
