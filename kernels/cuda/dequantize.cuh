// Dequantize stage: codes to values of any element type.
#ifndef GQ_KERNELS_CUDA_DEQUANTIZE_CUH
#define GQ_KERNELS_CUDA_DEQUANTIZE_CUH

#include "kernels/cuda/decode.cuh"
#include "kernels/cuda/shared_levels.cuh"

namespace gq::cuda {

inline ValueTarget target_of(const DequantizeArgs& args) {
  return ValueTarget(args.values, args.dtype, args.coding.rounding == Rounding::nearest,
                     shared_stream(args.random, Draw::output));
}

/** Sixteen values per thread: for scales of blocks, rotations, and whatever draws random words. */
template <typename Decoder>
struct Dequantize : ValueStage {
  static constexpr uint32_t kBlocksAtOnce = 2;  // 80 registers are a few too few on some devices
  static constexpr uint32_t kBits = Decoder::kBits;
  Decoder decoder;
  WordBuffer<const uint32_t> words;
  NormSource scales;
  ValueTarget target;

  Dequantize(const DequantizeArgs& args, const Decoder& decoder)
      : ValueStage(args.range, args.coding.rotated),
        decoder(decoder),
        words(word_buffer<kBits>(args.words)),
        scales(args.scales, args.coding.block),
        target(target_of(args)) {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece.first_value, piece.value_count);
    words = word_buffer<kBits>(static_cast<const uint32_t*>(piece.words));
    scales.set(piece.norms);
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

  GQ_DEVICE void give_from(const WordBuffer<const uint32_t>& from, const Step& step,
                           const Place& place, float (&value)[kThreadValues]) const {
    uint32_t word[kThreadWords<kBits>];
    load_words<kBits>(from, place.offset, place.code_count, word);
    uint32_t bits[kThreadValues];
    if constexpr (Decoder::kDraws) fill_bits(decoder.stream, first_value + place.offset, bits);
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; e += 4) {
      float four[4];
      if constexpr (Decoder::kDraws) {
        decoder.decode_four(four_lanes<kBits>(word, e), step.step, bits + e, four);
      } else {
        decoder.decode_four(four_lanes<kBits>(word, e), step.step, four);
      }
      GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) value[e + k] = four[k];
    }
    if (!step.constant) return;
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) value[e] = step.step;
  }

  GQ_DEVICE void take(const Place& place, const Step&, const float (&value)[kThreadValues]) const {
    target.store(first_value, place, value);
  }
};

/** One scale and float32, the hot case: four values per thread at a time, so that the threads of a
 *  warp write whole lines of memory. The last values are written one by one. Codes of 8 bits are
 *  computed with, those of 4 bits looked up. */
template <typename Decoder>
struct DequantizeFloats : StageDefaults {
  static constexpr uint32_t kBits = Decoder::kBits;
  static constexpr uint32_t kValues = 4;
  static constexpr uint32_t kRepeats = 4;
  static constexpr uint32_t kIterationValues = kThreads * kValues * kRepeats;
  using Shared = SharedLevels<kBits>;
  struct Own {
    Step step;
    float factor;  ///< of codes of 8 bits, if it is finite
  };
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

  /** All threads of the block come here. */
  GQ_DEVICE Own begin(Shared& shared) const {
    const Step step = step_of(decoder, *scale);
    if constexpr (kBits == 8) {
      return {step, decoder.factor(step.step)};
    } else {
      float value[kValues];
      decoder.decode_four(shared.code_of(threadIdx.x), step.step, value);
      __syncthreads();  // threads may still look up what was shared last
      shared.fill(threadIdx.x, step.constant ? step.step : value[0]);
      __syncthreads();
      return {step, 0};
    }
  }

  GQ_DEVICE void run(uint32_t iteration, const Own& own, const Shared& shared) const {
    const bool is_full = vectors && uint64_t{iteration + 1} * kIterationValues <= value_count;
    if (is_full && is_plain(own)) return run_full(iteration, own, shared);
    const uint64_t first = first_of(iteration);
    for (uint32_t k = 0; k < kRepeats; ++k) {
      const uint64_t offset = first + k * kThreads * kValues;
      if (offset >= value_count) return;
      float value[kValues];
      decode_any(lanes_at(offset / kValues), own, shared, value);
      GQ_UNROLL for (uint32_t e = 0; e < kValues; ++e) {
        if (offset + e < value_count) values[offset + e] = value[e];
      }
    }
  }

  /** An iteration in which every thread has all its values, decoded from codes. */
  GQ_DEVICE void run_full(uint32_t iteration, const Own& own, const Shared& shared) const {
    const uint64_t first = first_of(iteration);
    uint32_t lanes[kRepeats];
    GQ_UNROLL for (uint32_t k = 0; k < kRepeats; ++k) {
      lanes[k] = lanes_at(first / kValues + k * kThreads);
    }
    float* const target = values + first;
    GQ_UNROLL for (uint32_t k = 0; k < kRepeats; ++k) {
      float value[kValues];
      if constexpr (kBits == 8) {
        decoder.decode_four_by(lanes[k], own.factor, value);
      } else {
        shared.look_up_four(lanes[k], threadIdx.x, value);
      }
      Vector<kValues> stored;
      GQ_UNROLL for (uint32_t e = 0; e < kValues; ++e) stored.word[e] = float_bits(value[e]);
      store_vector(target + k * kThreads * kValues, stored);
    }
  }

 private:
  GQ_DEVICE static uint64_t first_of(uint32_t iteration) {
    return (uint64_t{iteration} * kRepeats * kThreads + threadIdx.x) * kValues;
  }

  /** Whether run_full has what it needs. */
  GQ_DEVICE static bool is_plain(const Own& own) {
    return kBits == 4 || (!own.step.constant && is_finite(own.factor));
  }

  GQ_DEVICE void decode_any(uint32_t lanes, const Own& own, const Shared& shared,
                            float (&value)[kValues]) const {
    if constexpr (kBits == 4) {
      shared.look_up_four(lanes, threadIdx.x, value);
    } else {
      const Step& step = own.step;
      decoder.decode_four(lanes, step.step, value);
      GQ_UNROLL for (uint32_t e = 0; e < kValues; ++e) {
        value[e] = step.constant ? step.step : value[e];
      }
    }
  }

  /** Four lanes: a word, or half of one that two neighbouring threads share. */
  GQ_DEVICE uint32_t lanes_at(uint64_t number) const {
    return kBits == 8 ? words[number] : reinterpret_cast<const uint16_t*>(words)[number];
  }
};

template <typename Stage>
__global__ void __launch_bounds__(kBlockThreads, Stage::kBlocksAtOnce)
    dequantize_floats_kernel(const __grid_constant__ Pieces<Stage> pieces, const Gate gate) {
  __shared__ typename Stage::Shared shared;
  if (!is_open(gate)) return;
  for_each_piece(pieces, [&](const Stage& stage, const Iterations& iterations) {
    const typename Stage::Own own = stage.begin(shared);
    for (uint32_t k = iterations.first; k < iterations.end; k += gridDim.x) {
      stage.run(k, own, shared);
    }
  });
}

/** Sums of float32, or their mean. */
struct DequantizeNone : ValueStage {
  static constexpr uint32_t kBlocksAtOnce = 2;  // 80 registers are a few too few on some devices
  PatternBuffer words;
  float divisor;
  ValueTarget target;

  explicit DequantizeNone(const DequantizeArgs& args)
      : ValueStage(args.range, false),
        words(args.words),
        divisor(args.op == GQSGD_MEAN ? static_cast<float>(args.coding.ranks) : 1.0f),
        target(target_of(args)) {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece.first_value, piece.value_count);
    words.set(piece.words);
    target.set(piece.values);
  }

  GQ_DEVICE Nothing begin() const { return {}; }
  GQ_DEVICE void give(const Place& place, Nothing, float (&value)[kThreadValues]) const {
    words.load(place, value);
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

inline Piece piece_of(const DequantizeArgs& args) {
  return {args.range.first_value, args.range.value_count, args.values, place_of(args.scales),
          const_cast<uint32_t*>(args.words)};
}

}  // namespace gq::cuda

#endif
