// From a thread's values to the words of their codes: levels, thresholds, packing. Quantize and the
// re-encode of wide sums share it.
#ifndef GQ_KERNELS_CUDA_ENCODE_CUH
#define GQ_KERNELS_CUDA_ENCODE_CUH

#include "kernels/codec/exponential_words.h"
#include "kernels/codec/linear.h"
#include "kernels/codec/strata.h"
#include "kernels/codec/words.h"
#include "kernels/cuda/launch/values_kernel.cuh"
#include "kernels/rounding_strata.h"

namespace gq::cuda {

/** Levels make of random bits an addend, of a value and its addend a word with its code in the
 *  leading bits, and of these a word of codes. */
template <uint32_t kCodeBits>
struct LinearLevels {
  static constexpr uint32_t kBits = kCodeBits;
  uint32_t steps;

  GQ_DEVICE Scale scale_for_norm(float norm) const {
    return folded_linear_scale(linear_scale(norm, steps));
  }
  GQ_DEVICE uint32_t top_of(const Scale&) const { return 0; }  // the scale's own does

  GQ_DEVICE uint32_t addend_of(uint32_t uniform) const { return linear_addend(uniform, steps); }
  GQ_DEVICE uint32_t addend_in(uint32_t random_word, uint32_t value) const {
    return linear_addend_in(random_word, value, steps);
  }

  template <bool kNearest>
  GQ_DEVICE uint32_t raised(float value, const Scale& scale, uint32_t, uint32_t addend) const {
    return linear_at_24(value, scale, addend);
  }
  GQ_DEVICE uint32_t word(const uint32_t (&from)[32 / kBits],
                          const uint32_t (&)[32 / kBits]) const {
    return linear_word<kBits>(from);
  }
};

template <uint32_t kCodeBits, uint32_t kMantissaBits>
struct ExponentialLevels {
  static constexpr uint32_t kBits = kCodeBits;
  uint32_t headroom;

  GQ_DEVICE Scale scale_for_norm(float norm) const {
    return folded_exponential_scale(exponential_scale(norm, kBits, headroom, kMantissaBits));
  }
  GQ_DEVICE uint32_t top_of(const Scale& scale) const {
    return exponential_top_pattern<kMantissaBits>(scale);
  }

  GQ_DEVICE uint32_t addend_of(uint32_t uniform) const { return uniform; }
  GQ_DEVICE uint32_t addend_in(uint32_t random_word, uint32_t value) const {
    return value_bits(random_word, value);
  }

  template <bool kNearest>
  GQ_DEVICE uint32_t raised(float value, const Scale& scale, uint32_t top, uint32_t addend) const {
    return exponential_at_23<kMantissaBits, kNearest>(value, scale, top, addend);
  }
  GQ_DEVICE uint32_t word(const uint32_t (&from)[32 / kBits],
                          const uint32_t (&value)[32 / kBits]) const {
    return exponential_word<kBits, kMantissaBits>(from, value);
  }
};

/** Thresholds from a rank's own random words, or from strata of them where others round beside it
 *  (correlated): ranks in quantize, nodes in wide sums. */
struct Thresholds {
  /** What a thread makes once for all groups. */
  struct Start {
    StreamStart own, b;
    FactorWords factors;
  };
  Strata strata;
  KeyedStream own, a, b;

  Thresholds(const KeyedStream& own, const Strata& strata, const RandomSite& site)
      : strata(strata),
        own(own),
        a(stream_at(site, Draw::strata_a, strata.group, strata.hop)),
        b(stream_at(site, Draw::strata_b, strata.group, strata.hop)) {}

  explicit Thresholds(const QuantizeArgs& args)
      : Thresholds(own_stream(args.random, Draw::quantize),
                   strata_of_quantize(args.coding, args.random), args.random) {}

  explicit Thresholds(const ReduceManyArgs& args)
      : Thresholds(args.coding.rounding_down == RoundingDown::subtractive
                       ? shared_stream(args.random, Draw::subtractive)
                       : own_stream(args.random, Draw::encode_again),
                   strata_of_sum(args.coding, args.random), args.random) {}

  GQ_DEVICE Start start() const {
    const StreamStart own_start = start_of(own);
    if (strata.count == 1) return {own_start, {}, {}};
    return {own_start, start_of(b), factor_words(random_group(a, 0))};
  }

  template <typename Levels>
  GQ_DEVICE void fill(const Levels& levels, const Start& start, uint64_t group,
                      uint32_t (&addend)[kThreadValues]) const {
    const PhiloxBlock words = random_group(own, start.own, group);
    if (strata.count == 1) {
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        addend[e] = levels.addend_in(words.word[e / kWordValues], e);
      }
      return;
    }
    const PhiloxBlock words_b = random_group(b, start.b, group);
    const uint32_t offset = stratum_offset(strata, factor_bits(start.factors, group));
    const auto fill_all = [&] {
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        const uint32_t w = e / kWordValues;
        addend[e] = levels.addend_of(correlated_uniform(
            strata, value_bits(words.word[w], e), offset, value_bits(words_b.word[w], e)));
      }
    };
    // Fields, the usual case, are asked for once and not for each value.
    if (strata.field_bits == 0) return fill_all();
    __builtin_assume(strata.reciprocal == 0);
    fill_all();
  }
};

/** Rounds a thread's values to levels. */
struct Rounder {
  Thresholds thresholds;
  bool nearest;

  template <typename Args>
  explicit Rounder(const Args& args)
      : thresholds(args), nearest(args.coding.rounding == Rounding::nearest) {}

  /** `group` is that of the values' random words. */
  template <typename Levels>
  GQ_DEVICE void encode(const Levels& levels, const Thresholds::Start& start, uint64_t group,
                        const Scale& scale, const float (&value)[kThreadValues],
                        uint32_t (&word)[kThreadWords<Levels::kBits>]) const {
    float powered[kThreadValues];
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) powered[e] = value[e];
    if (__builtin_expect(scale.power != 1, 0)) {
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) powered[e] *= scale.power;
    }
    uint32_t addend[kThreadValues];
    if (nearest) {
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        addend[e] = levels.addend_of(kUniformHalf);
      }
      pack<true>(levels, scale, powered, addend, word);
    } else {
      thresholds.fill(levels, start, group, addend);
      pack<false>(levels, scale, powered, addend, word);
    }
  }

 private:
  template <bool kNearest, typename Levels>
  GQ_DEVICE static void pack(const Levels& levels, const Scale& scale,
                             const float (&value)[kThreadValues],
                             const uint32_t (&addend)[kThreadValues],
                             uint32_t (&word)[kThreadWords<Levels::kBits>]) {
    constexpr uint32_t kPerWord = codes_per_word(Levels::kBits);
    const uint32_t top = levels.top_of(scale);
    GQ_UNROLL for (uint32_t w = 0; w < kThreadWords<Levels::kBits>; ++w) {
      uint32_t from[kPerWord], pattern[kPerWord];
      GQ_UNROLL for (uint32_t k = 0; k < kPerWord; ++k) {
        const uint32_t e = w * kPerWord + k;
        from[k] = levels.template raised<kNearest>(value[e], scale, top, addend[e]);
        pattern[k] = float_bits(value[e]);
      }
      word[w] = levels.word(from, pattern);
    }
  }
};

/** Encodes a thread's values and writes their codes. */
template <typename LevelKind>
struct Encoder {
  using Levels = LevelKind;
  /** What a thread keeps between iterations: its own offset in each. */
  struct Thread {
    Thresholds::Start start;
    uint64_t group;
    uint32_t* words;
  };
  Levels levels;
  Rounder rounder;
  WordBuffer<uint32_t> target;

  GQ_HD void set(void* words) {
    target = word_buffer<Levels::kBits>(static_cast<uint32_t*>(words));
  }

  GQ_DEVICE Thread thread_of(uint64_t first_value, uint32_t within) const {
    return {rounder.thresholds.start(), kept(first_value / kGroupValues + within / kGroupValues),
            target.words + within / codes_per_word(Levels::kBits)};
  }

  GQ_DEVICE void encode(uint64_t first_value, const Place& place, const Scale& scale,
                        const float (&value)[kThreadValues]) const {
    encode(thread_of(first_value, place.within), place, scale, value);
  }

  GQ_DEVICE void encode(const Thread& thread, const Place& place, const Scale& scale,
                        const float (&value)[kThreadValues]) const {
    uint32_t word[kThreadWords<Levels::kBits>];
    rounder.encode(levels, thread.start, thread.group + place.base / kGroupValues, scale, value,
                   word);
    store_words<Levels::kBits>(WordBuffer<uint32_t>{thread.words, target.vectors}, place.base,
                               place.code_count, word);
  }
};

}  // namespace gq::cuda

#endif
