// Dequantize stage: codes to values of any element type.
#ifndef GQ_KERNELS_CUDA_DEQUANTIZE_CUH
#define GQ_KERNELS_CUDA_DEQUANTIZE_CUH

#include "kernels/cuda/decode.cuh"

namespace gq::cuda {

template <typename Decoder, Dtypes kDtypes = Dtypes::any>
struct Dequantize : ValueStage {
  static constexpr uint32_t kBlocksAtOnce = blocks_of(kDtypes, 4);
  static constexpr uint32_t kBits = Decoder::kBits;
  Decoder decoder;
  WordBuffer<const uint32_t> words;
  NormSource scales;
  ValueTarget<kDtypes> target;

  Dequantize(const DequantizeArgs& args, const Decoder& decoder)
      : ValueStage(args.range, args.coding.rotated),
        decoder(decoder),
        words(word_buffer<kBits>(args.words)),
        scales(args.scales, args.coding.block),
        target(args) {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece.first_value, piece.value_count);
    words = word_buffer<kBits>(static_cast<const uint32_t*>(piece.words));
    scales.set(piece.scales);
    target.set(piece.values);
  }

  GQ_DEVICE Step begin() const {
    return scales.is_one() ? step_of(decoder, *scales.one) : Step{0, true};
  }
  /** Of a place that has codes, or not. */
  GQ_DEVICE Step step_at(const NormSource& scales, const Place& place, const Step& one) const {
    if (scales.is_one()) return one;
    return place.code_count > 0 ? step_of(decoder, scales.at(place.offset)) : Step{0, true};
  }

  GQ_DEVICE void give(const Place& place, const Step& one, float (&value)[kThreadValues]) const {
    give_from(words, step_at(scales, place, one), place, value);
  }

  GQ_DEVICE static WordBuffer<const uint32_t> buffer_of(const uint32_t* words) {
    return word_buffer<kBits>(words);
  }
  GQ_DEVICE void give_from(const WordBuffer<const uint32_t>& from, const Step& step,
                           const Place& place, float (&value)[kThreadValues]) const {
    uint32_t word[kThreadWords<kBits>];
    load_words<kBits>(from, place.offset, place.code_count, word);
    decode_values(decoder, step, first_value + place.offset, word, value);
  }

  GQ_DEVICE void take(const Place& place, const Step&, const float (&value)[kThreadValues]) const {
    target.store(first_value, place, value);
  }
};

/** Sums of float32, or their mean. */
template <Dtypes kDtypes = Dtypes::any>
struct DequantizeNone : ValueStage {
  static constexpr bool kMayRotate = false;
  static constexpr uint32_t kBlocksAtOnce = blocks_of(kDtypes, 4);
  PatternBuffer words;
  float divisor;
  ValueTarget<kDtypes> target;

  explicit DequantizeNone(const DequantizeArgs& args)
      : ValueStage(args.range, false),
        words(args.words),
        divisor(result_divisor(args.op, args.coding.ranks)),
        target(args) {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece.first_value, piece.value_count);
    words.set(piece.words);
    target.set(piece.values);
  }

  GQ_DEVICE void give(const Place& place, Nothing, float (&value)[kThreadValues]) const {
    give_from(words, {}, place, value);
  }

  GQ_DEVICE static PatternBuffer buffer_of(const uint32_t* words) { return PatternBuffer(words); }
  GQ_DEVICE void give_from(const PatternBuffer& from, Nothing, const Place& place,
                           float (&value)[kThreadValues]) const {
    from.load(place, value);
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) value[e] = canonical(value[e] / divisor);
  }
  GQ_DEVICE void take(const Place& place, Nothing, const float (&value)[kThreadValues]) const {
    target.store(first_value, place, value);
  }
};

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

}  // namespace gq::cuda

#endif
