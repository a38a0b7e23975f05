// Quantize stage: values to codes.
#ifndef GQ_KERNELS_CUDA_QUANTIZE_CUH
#define GQ_KERNELS_CUDA_QUANTIZE_CUH

#include "kernels/cuda/encode.cuh"

namespace gq::cuda {

template <typename Levels>
struct Quantize : WorkDefaults {
  struct Own {
    Scale scale;
    const void* values;
    EncoderThread encoder;
  };
  using Here = Local<Nothing, Own>;

  ValueSource source;
  NormSource norms;
  Encoder<Levels, QuantizeThresholds> encoder;

  Quantize(const QuantizeArgs& args, const Levels& levels)
      : WorkDefaults(args.range, args.coding.rotated),
        source(args.values, args.dtype),
        norms(args.norms, args.coding.block),
        encoder{levels, QuantizeThresholds(args.coding, args.random),
                args.coding.rounding == Rounding::nearest, word_buffer<Levels::kBits>(args.words)} {
  }

  GQ_HD void set(const Piece& piece) {
    set_range(piece);
    source.set(piece.values);
    norms.set(piece.norms);
    encoder.set(piece.words);
  }

  GQ_HD void begin(Here local) const {
    begin_thread(local);
    if (norms.is_one()) local.own.scale = encoder.levels.scale_for_norm(*norms.one);
  }
  /** All but the scale. */
  GQ_HD void begin_thread(Here local) const {
    const uint32_t within = local.thread * kThreadValues;
    local.own.values = kept(source.place_of(within));
    local.own.encoder = encoder.thread_of(first_value, within);
  }
  GQ_HD void give(const Place& place, Here local, float (&value)[kThreadValues]) const {
    source.load_from(local.own.values, place.base, place.value_count, value);
  }
  GQ_HD void take(const Place& place, Here local, const float (&value)[kThreadValues]) const {
    if (!norms.is_one()) {
      local.own.scale = encoder.levels.scale_for_norm(norms.at(place.offset));
    }
    encoder.encode(local.own.encoder, place, local.own.scale, value);
  }
};

/** Without levels a code is the value's own pattern. */
struct QuantizeNone : WorkDefaults {
  using Here = Local<Nothing, Nothing>;
  ValueSource source;
  WordBuffer<uint32_t> target;

  explicit QuantizeNone(const QuantizeArgs& args)
      : WorkDefaults(args.range, false),
        source(args.values, args.dtype),
        target(word_buffer<32>(args.words)) {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece);
    source.set(piece.values);
    target = word_buffer<32>(static_cast<uint32_t*>(piece.words));
  }

  GQ_HD void give(const Place& place, Here, float (&value)[kThreadValues]) const {
    source.load(place.offset, place.value_count, value);
  }
  GQ_HD void take(const Place& place, Here, const float (&value)[kThreadValues]) const {
    uint32_t word[kThreadValues];
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) word[e] = float_bits(value[e]);
    store_words<32>(target, place.offset, place.code_count, word);
  }
};

template <typename Launcher, typename Levels>
StageError quantize_with(Launcher& launch, const StageCalls<QuantizeArgs>& calls,
                         const Levels& levels) {
  const QuantizeArgs& args = calls.first();
  return start<false>(launch, calls, Quantize<Levels>(args, levels), args.coding.rotated);
}

inline Piece piece_of(const QuantizeArgs& args) {
  return {args.range.first_value, args.range.value_count, args.values, place_of(args.norms),
          args.words};
}

template <typename Launcher>
StageError quantize_on(Launcher launch, const QuantizeArgs* args, size_t count, void* table) {
  const StageCalls<QuantizeArgs> calls{args, count, table, piece_of};
  const Coding& coding = args->coding;
  if (count == 1 && args->range.value_count == 0) return {};  // Then pointers may be null.
  if (coding.levels == Levels::none) {
    return calls.run(launch, Plain<QuantizeNone>(QuantizeNone(*args)));
  }
  const bool byte_codes = coding.bits == 8;
  if (coding.levels == Levels::linear) {
    return byte_codes ? quantize_with(launch, calls, LinearLevels<8>{coding.steps})
                      : quantize_with(launch, calls, LinearLevels<4>{coding.steps});
  }
  if (coding.mantissa_bits > 0) {
    return quantize_with(launch, calls, ExponentialLevels<8, 2>{coding.headroom});
  }
  return byte_codes ? quantize_with(launch, calls, ExponentialLevels<8, 0>{coding.headroom})
                    : quantize_with(launch, calls, ExponentialLevels<4, 0>{coding.headroom});
}

}  // namespace gq::cuda

#endif
