// From a thread's values to the words of their codes: levels, thresholds, packing. Quantize and the
// re-encode of wide sums share it.
#ifndef GQ_KERNELS_CUDA_ENCODE_CUH
#define GQ_KERNELS_CUDA_ENCODE_CUH

#include "kernels/codec/exponential_words.h"
#include "kernels/codec/linear.h"
#include "kernels/codec/strata.h"
#include "kernels/codec/words.h"
#include "kernels/cuda/work.cuh"

namespace gq::cuda {

template <uint32_t kCodeBits>
struct LinearLevels {
  static constexpr uint32_t kBits = kCodeBits;
  uint32_t steps;
  uint32_t steps_at_23;

  explicit LinearLevels(uint32_t steps) : steps(steps), steps_at_23(steps << kUniformBits) {}

  GQ_HD Scale scale_for_norm(float norm) const { return linear_scale(norm, steps); }

  template <bool kNearest>
  GQ_HD uint32_t at_23(float value, const Scale& scale, uint32_t bits) const {
    return linear_at_23<kNearest>(value, scale, steps_at_23, bits);
  }
  GQ_HD uint32_t word(const uint32_t (&from)[32 / kBits], const uint32_t (&)[32 / kBits]) const {
    return packed_lanes<kBits>(from);
  }
};

template <uint32_t kCodeBits, uint32_t kMantissaBits>
struct ExponentialLevels {
  static constexpr uint32_t kBits = kCodeBits;
  uint32_t headroom;

  GQ_HD Scale scale_for_norm(float norm) const {
    return exponential_scale(norm, kBits, headroom, kMantissaBits);
  }

  template <bool kNearest>
  GQ_HD uint32_t at_23(float value, const Scale& scale, uint32_t bits) const {
    return exponential_at_23<kMantissaBits, kNearest>(value, scale, bits);
  }
  GQ_HD uint32_t word(const uint32_t (&from)[32 / kBits],
                      const uint32_t (&value)[32 / kBits]) const {
    return exponential_word<kBits, kMantissaBits>(from, value);
  }
};

/** Thresholds from a rank's own words. */
struct OwnThresholds {
  KeyedStream own;

  GQ_HD void fill(uint64_t first_value, uint32_t (&bits)[kThreadValues]) const {
    fill_bits(own, first_value, bits);
  }
};

/** Those of quantize: own words, or strata of them (correlated). */
struct QuantizeThresholds {
  KeyedStream own;
  Strata strata;
  KeyedStream a, b;

  QuantizeThresholds(const Coding& coding, const RandomSite& site)
      : own(own_stream(site, Draw::quantize)),
        strata(coding.rounding == Rounding::correlated ? strata_of(site.rank, coding.ranks)
                                                       : Strata{0, 0, 1, 0, 0, {}}),
        a(stream_at(site, Draw::strata_a, strata.group, 0)),
        b(stream_at(site, Draw::strata_b, strata.group, 0)) {}

  GQ_HD void fill(uint64_t first_value, uint32_t (&bits)[kThreadValues]) const {
    fill_bits(own, first_value, bits);
    if (strata.count == 1) return;
    const PhiloxBlock words_a = random_group(a, first_value / kGroupValues);
    const PhiloxBlock words_b = random_group(b, first_value / kGroupValues);
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      bits[e] = correlated_uniform(strata, bits[e], value_bits(words_a.word[e / kWordValues], e),
                                   value_bits(words_b.word[e / kWordValues], e));
    }
  }
};

/** Levels make of each value a word with its code from bit 23 on, and of these a word of codes. */
template <bool kNearest, typename Levels>
GQ_HD void pack_codes(const Levels& levels, const Scale& scale, const float (&value)[kThreadValues],
                      const uint32_t (&bits)[kThreadValues],
                      uint32_t (&word)[kThreadWords<Levels::kBits>]) {
  constexpr uint32_t kPerWord = codes_per_word(Levels::kBits);
  GQ_UNROLL for (uint32_t w = 0; w < kThreadWords<Levels::kBits>; ++w) {
    uint32_t from[kPerWord], pattern[kPerWord];
    GQ_UNROLL for (uint32_t k = 0; k < kPerWord; ++k) {
      const uint32_t e = w * kPerWord + k;
      from[k] = levels.template at_23<kNearest>(value[e], scale, bits[e]);
      pattern[k] = float_bits(value[e]);
    }
    word[w] = levels.word(from, pattern);
  }
}

/** Encodes a thread's values and writes their codes. */
template <typename LevelKind, typename Thresholds>
struct Encoder {
  using Levels = LevelKind;
  Levels levels;
  Thresholds thresholds;
  bool nearest;
  WordBuffer<uint32_t> target;

  GQ_HD void encode(uint64_t first_value, const Place& place, const Scale& scale,
                    const float (&value)[kThreadValues]) const {
    uint32_t bits[kThreadValues] = {};
    uint32_t word[kThreadWords<Levels::kBits>];
    if (nearest) {
      pack_codes<true>(levels, scale, value, bits, word);
    } else {
      thresholds.fill(first_value + place.offset, bits);
      pack_codes<false>(levels, scale, value, bits, word);
    }
    store_words<Levels::kBits>(target, place.offset, place.code_count, word);
  }
};

}  // namespace gq::cuda

#endif
