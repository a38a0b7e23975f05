// Dequantize stage: codes to values of any element type.
#ifndef GQ_KERNELS_CUDA_DEQUANTIZE_CUH
#define GQ_KERNELS_CUDA_DEQUANTIZE_CUH

#include "kernels/cuda/decode.cuh"
#include "kernels/cuda/shared_levels.cuh"

namespace gq::cuda {

struct StepOwn {
  Step step;
};

inline ValueTarget target_of(const DequantizeArgs& args) {
  return ValueTarget(args.values, args.dtype, args.coding.rounding == Rounding::nearest,
                     shared_stream(args.random, Draw::output));
}

/** Sixteen values per thread: for scales of blocks, rotations, and whatever draws random words. */
template <typename Decoder>
struct Dequantize : WorkDefaults {
  static constexpr uint32_t kBlocksAtOnce = 2;  // 80 registers are a few too few on some devices
  static constexpr uint32_t kBits = Decoder::kBits;
  using Own = StepOwn;
  using Here = Local<Nothing, Own>;
  Decoder decoder;
  WordBuffer<const uint32_t> words;
  NormSource scales;
  ValueTarget target;

  Dequantize(const DequantizeArgs& args, const Decoder& decoder)
      : WorkDefaults(args.range, args.coding.rotated),
        decoder(decoder),
        words(word_buffer<kBits>(args.words)),
        scales(args.scales, args.coding.block),
        target(target_of(args)) {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece);
    words = word_buffer<kBits>(static_cast<const uint32_t*>(piece.words));
    scales.set(piece.norms);
    target.set(piece.values);
  }

  GQ_HD void begin(Here local) const {
    if (scales.is_one()) local.own.step = step_of(decoder, *scales.one);
  }

  GQ_HD void give(const Place& place, Here local, float (&value)[kThreadValues]) const {
    give_from(words, scales, place, local, value);
  }

  GQ_HD void give_from(const WordBuffer<const uint32_t>& from, const NormSource& scales,
                       const Place& place, Here local, float (&value)[kThreadValues]) const {
    uint32_t word[kThreadWords<kBits>];
    load_words<kBits>(from, place.offset, place.code_count, word);
    Step step = local.own.step;
    if (!scales.is_one()) {
      step = place.code_count > 0 ? step_of(decoder, scales.at(place.offset)) : Step{0, true};
    }
    if constexpr (Decoder::kDraws) {
      uint32_t bits[kThreadValues];
      fill_bits(decoder.stream, first_value + place.offset, bits);
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        const uint32_t code = lane<kBits>(word[e / codes_per_word(kBits)], e);
        value[e] = decoder.decode(code, step.step, bits[e]);
      }
    } else {
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; e += 4) {
        const uint32_t lanes =
            word[e / codes_per_word(kBits)] >> (kBits * (e % codes_per_word(kBits)));
        float four[4];
        decoder.decode_four(lanes, step.step, four);
        GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) value[e + k] = four[k];
      }
    }
    if (!step.constant) return;
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) value[e] = step.step;
  }

  GQ_HD void take(const Place& place, Here, const float (&value)[kThreadValues]) const {
    target.store(first_value, place.offset, place.value_count, value);
  }
};

/** One scale and float32, the hot case: four values per thread at a time, so that the threads of a
 *  warp write whole lines of memory. The last values are written one by one. Codes of 8 bits are
 *  computed with, those of 4 bits looked up. */
template <typename Decoder>
struct DequantizeFloats : BodyDefaults {
  static constexpr uint32_t kBits = Decoder::kBits;
  static constexpr uint32_t kValues = 4;
  static constexpr uint32_t kRepeats = 4;
  static constexpr uint32_t kIterationValues = kThreads * kValues * kRepeats;
  static constexpr bool kShares = kBits == 4;
  using Shared = SharedLevels<kBits>;
  struct Own {
    Step step;
    float factor;  ///< of codes of 8 bits, if it is finite
  };
  using Here = Local<Shared, Own>;
  Decoder decoder;
  const uint32_t* words;
  const float* scale;
  float* values;
  uint64_t value_count;
  bool vectors;

  DequantizeFloats(const DequantizeArgs& args, const Decoder& decoder)
      : decoder(decoder),
        words(args.words),
        scale(args.scales.one),
        values(static_cast<float*>(args.values)),
        value_count(args.range.value_count),
        vectors(is_aligned(args.values, 16)) {}

  GQ_HD void set(const Piece& piece) {
    words = static_cast<const uint32_t*>(piece.words);
    scale = static_cast<const float*>(piece.norms);
    values = static_cast<float*>(const_cast<void*>(piece.values));
    value_count = piece.value_count;
    vectors = is_aligned(values, 16);
  }
  uint32_t iterations() const {
    return static_cast<uint32_t>((value_count + kIterationValues - 1) / kIterationValues);
  }

  GQ_HD void begin(Here local) const {
    const Step step = step_of(decoder, *scale);
    local.own = {step, 0};
    if constexpr (kBits == 8) {
      local.own.factor = decoder.factor(step.step);
    } else {
      float value[kValues];
      decoder.decode_four(local.shared.code_of(local.thread), step.step, value);
      local.shared.fill(local.thread, step.constant ? step.step : value[0]);
    }
  }

  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t, Here local) const {
    const bool is_full = vectors && uint64_t{iteration + 1} * kIterationValues <= value_count;
    if (is_full && is_plain(local.own)) return run_full(iteration, local);
    const uint64_t first = first_of(iteration, local.thread);
    for (uint32_t k = 0; k < kRepeats; ++k) {
      const uint64_t offset = first + k * kThreads * kValues;
      if (offset >= value_count) return;
      float value[kValues];
      decode_any(lanes_at(offset / kValues), local, value);
      GQ_UNROLL for (uint32_t e = 0; e < kValues; ++e) {
        if (offset + e < value_count) values[offset + e] = value[e];
      }
    }
  }

  /** An iteration in which every thread has all its values, decoded from codes. */
  GQ_HD void run_full(uint32_t iteration, Here local) const {
    const uint64_t first = first_of(iteration, local.thread);
    uint32_t lanes[kRepeats];
    GQ_UNROLL for (uint32_t k = 0; k < kRepeats; ++k) {
      lanes[k] = lanes_at(first / kValues + k * kThreads);
    }
    float* const target = values + first;
    GQ_UNROLL for (uint32_t k = 0; k < kRepeats; ++k) {
      float value[kValues];
      if constexpr (kBits == 8) {
        decoder.decode_four_by(lanes[k], local.own.factor, value);
      } else {
        local.shared.look_up_four(lanes[k], local.thread, value);
      }
      Vector<kValues> stored;
      GQ_UNROLL for (uint32_t e = 0; e < kValues; ++e) stored.word[e] = float_bits(value[e]);
      store_vector(target + k * kThreads * kValues, stored);
    }
  }

 private:
  GQ_HD static uint64_t first_of(uint32_t iteration, uint32_t thread) {
    return (uint64_t{iteration} * kRepeats * kThreads + thread) * kValues;
  }

  /** Whether run_full has what it needs. */
  GQ_HD static bool is_plain(const Own& own) {
    return kBits == 4 || (!own.step.constant && is_finite(own.factor));
  }

  GQ_HD void decode_any(uint32_t lanes, Here local, float (&value)[kValues]) const {
    if constexpr (kBits == 4) {
      local.shared.look_up_four(lanes, local.thread, value);
    } else {
      const Step& step = local.own.step;
      decoder.decode_four(lanes, step.step, value);
      GQ_UNROLL for (uint32_t e = 0; e < kValues; ++e) {
        value[e] = step.constant ? step.step : value[e];
      }
    }
  }

  /** Four lanes: a word, or half of one that two neighbouring threads share. */
  GQ_HD uint32_t lanes_at(uint64_t number) const {
    return kBits == 8 ? words[number] : load_half(words, number);
  }
};

/** Sums of float32, or their mean. */
struct DequantizeNone : WorkDefaults {
  static constexpr uint32_t kBlocksAtOnce = 2;  // 80 registers are a few too few on some devices
  using Here = Local<Nothing, Nothing>;
  WordBuffer<const uint32_t> words;
  float divisor;
  ValueTarget target;

  explicit DequantizeNone(const DequantizeArgs& args)
      : WorkDefaults(args.range, false),
        words(word_buffer<32>(args.words)),
        divisor(args.op == GQSGD_MEAN ? static_cast<float>(args.coding.ranks) : 1.0f),
        target(target_of(args)) {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece);
    words = word_buffer<32>(static_cast<const uint32_t*>(piece.words));
    target.set(piece.values);
  }

  GQ_HD void give(const Place& place, Here, float (&value)[kThreadValues]) const {
    uint32_t word[kThreadValues];
    load_words<32>(words, place.offset, place.code_count, word);
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      value[e] = canonical(float_from_bits(word[e]) / divisor);
    }
  }
  GQ_HD void take(const Place& place, Here, const float (&value)[kThreadValues]) const {
    target.store(first_value, place.offset, place.value_count, value);
  }
};

using DequantizeCalls = StageCalls<DequantizeArgs>;

template <typename Launcher, typename Decoder>
StageError dequantize_with(Launcher& launch, const DequantizeCalls& calls,
                           const Decoder& decoder) {
  const DequantizeArgs& args = calls.first();
  if constexpr (!Decoder::kDraws) {
    const bool plain = args.scales.one != nullptr && !args.coding.rotated;
    if (plain && args.dtype == GQSGD_FLOAT32) {
      return calls.run(launch, DequantizeFloats<Decoder>(args, decoder));
    }
  }
  return start<true>(launch, calls, Dequantize<Decoder>(args, decoder), args.coding.rotated);
}

template <uint32_t kBits>
LinearDecoder<kBits> linear_decoder(const DequantizeArgs& args) {
  const Coding& coding = args.coding;
  const bool exact = coding.combine == Combine::exact && !coding.wide;
  const uint32_t top = coding.wide ? coding.steps_down : coding.steps * (exact ? coding.ranks : 1);
  return {top, args.op == GQSGD_SUM ? coding.ranks : 1};
}

template <uint32_t kBits, uint32_t kMantissaBits>
ExponentialDecoder<kBits, kMantissaBits> exponential_decoder(const DequantizeArgs& args) {
  const Coding& coding = args.coding;
  const bool added = coding.combine == Combine::sum && !coding.wide;
  return {code_max(kBits) - coding.headroom, coding.ranks, added, args.op == GQSGD_MEAN};
}

template <uint32_t kBits, typename Launcher>
StageError dequantize_linear_on(Launcher& launch, const DequantizeCalls& calls) {
  const DequantizeArgs& args = calls.first();
  const Coding& coding = args.coding;
  const LinearDecoder<kBits> decoder = linear_decoder<kBits>(args);
  if (coding.wide && coding.rounding_down == RoundingDown::subtractive) {
    const KeyedStream stream = shared_stream(args.random, Draw::subtractive);
    return dequantize_with(launch, calls,
                           SubtractiveDecoder<kBits>{decoder.top, decoder.multiplier, stream});
  }
  return dequantize_with(launch, calls, decoder);
}

template <uint32_t kBits, uint32_t kMantissaBits, typename Launcher>
StageError dequantize_exponential_on(Launcher& launch, const DequantizeCalls& calls) {
  return dequantize_with(launch, calls, exponential_decoder<kBits, kMantissaBits>(calls.first()));
}

inline Piece piece_of(const DequantizeArgs& args) {
  return {args.range.first_value, args.range.value_count, args.values, place_of(args.scales),
          const_cast<uint32_t*>(args.words)};
}

template <typename Launcher>
StageError dequantize_on(Launcher launch, const DequantizeArgs* args, size_t count, void* table) {
  const DequantizeCalls calls{args, count, table, piece_of};
  const Coding& coding = args->coding;
  if (count == 1 && args->range.value_count == 0) return {};  // Then pointers may be null.
  if (coding.levels == Levels::none) {
    return calls.run(launch, Plain<DequantizeNone>(DequantizeNone(*args)));
  }
  const bool byte_codes = coding.bits_down == 8;
  if (coding.levels == Levels::linear) {
    return byte_codes ? dequantize_linear_on<8>(launch, calls)
                      : dequantize_linear_on<4>(launch, calls);
  }
  if (coding.mantissa_bits > 0) return dequantize_exponential_on<8, 2>(launch, calls);
  return byte_codes ? dequantize_exponential_on<8, 0>(launch, calls)
                    : dequantize_exponential_on<4, 0>(launch, calls);
}

}  // namespace gq::cuda

#endif
