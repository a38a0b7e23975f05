// From the words of a thread's codes to values: what each kind of code stands for under a scale.
#ifndef GQ_KERNELS_CUDA_DECODE_CUH
#define GQ_KERNELS_CUDA_DECODE_CUH

#include "kernels/codec/exponential_words.h"
#include "kernels/codec/linear.h"
#include "kernels/codec/words.h"
#include "kernels/cuda/launch/values_kernel.cuh"

namespace gq::cuda {

/** Four lanes of a thread's words, from value e on, in the last bits. */
template <uint32_t kBits>
GQ_DEVICE uint32_t four_lanes(const uint32_t (&word)[kThreadWords<kBits>], uint32_t e) {
  return word[e / codes_per_word(kBits)] >> (kBits * (e % codes_per_word(kBits)));
}

template <uint32_t kCodeBits>
struct LinearDecoder {
  static constexpr uint32_t kBits = kCodeBits;
  static constexpr bool kDraws = false;
  uint32_t top;
  uint32_t multiplier;

  GQ_DEVICE float step(float scale) const { return linear_step(scale, multiplier, top); }
  GQ_DEVICE void decode_four(uint32_t lanes, float step, const uint32_t*, float (&value)[4]) const {
    linear_decode_four<kBits>(lanes, 0x1p23f + static_cast<float>(top), step, value);
  }
};

/** Takes off what the re-encode added: the thresholds are known to all ranks. */
template <uint32_t kBits>
struct SubtractiveDecoder : LinearDecoder<kBits> {
  using LinearDecoder<kBits>::top, LinearDecoder<kBits>::multiplier;
  static constexpr bool kDraws = true;
  KeyedStream stream;

  GQ_DEVICE float step(float scale) const { return subtractive_step(scale, multiplier, top); }
  GQ_DEVICE void decode_four(uint32_t lanes, float step, const uint32_t* bits,
                             float (&value)[4]) const {
    subtractive_decode_four<kBits>(lanes, 0x1p23f + static_cast<float>(top), step, bits, value);
  }
};

template <uint32_t kCodeBits, uint32_t kMantissaBits>
struct ExponentialDecoder {
  static constexpr uint32_t kBits = kCodeBits;
  static constexpr bool kDraws = false;
  uint32_t one;  ///< the code of the norm
  uint32_t ranks;
  bool added, mean;

  GQ_DEVICE float step(float scale) const {
    return exponential_unit(scale, added, mean, ranks, kMantissaBits);
  }
  GQ_DEVICE void decode_four(uint32_t lanes, float step, const uint32_t*, float (&value)[4]) const {
    // What codes are too small by there; a code's product with it is exact, for 127 is the largest.
    const float power = kMantissaBits > 0 ? 0x1p96f : power_of_two(127 - static_cast<int32_t>(one));
    exponential_powers<kBits, kMantissaBits>(lanes, value);
    GQ_UNROLL for (uint32_t e = 0; e < 4; ++e) value[e] = value[e] * power * step;
  }
};

/** What one level, or the norm, is in the result; or the result of all codes, where a scale of
 * zero, or one that is not finite, determines it. */
struct Step {
  float step;
  bool constant;
};

template <typename Decoder>
GQ_DEVICE Step step_of(const Decoder& decoder, float scale) {
  if (scale == 0) return {0, true};
  if (!is_finite(scale)) return {float_from_bits(kFloatNanBits), true};
  return {decoder.step(scale), false};
}

/** A thread's values; first_value: in the call. */
template <typename Decoder>
GQ_DEVICE void decode_values(const Decoder& decoder, const Step& step, uint64_t first_value,
                             const uint32_t (&word)[kThreadWords<Decoder::kBits>],
                             float (&value)[kThreadValues]) {
  uint32_t bits[kThreadValues];
  if constexpr (Decoder::kDraws) fill_bits(decoder.stream, first_value, bits);
  GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; e += 4) {
    float four[4];
    decoder.decode_four(four_lanes<Decoder::kBits>(word, e), step.step, bits + e, four);
    GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) value[e + k] = four[k];
  }
  if (!step.constant) return;
  GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) value[e] = step.step;
}

}  // namespace gq::cuda

#endif
