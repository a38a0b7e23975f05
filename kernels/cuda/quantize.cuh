// Quantize stage: values to codes.
#ifndef GQ_KERNELS_CUDA_QUANTIZE_CUH
#define GQ_KERNELS_CUDA_QUANTIZE_CUH

#include "kernels/cuda/encode.cuh"

namespace gq::cuda {

template <typename Levels, Dtypes kDtypes = Dtypes::any>
struct Quantize : ValueStage {
  static constexpr uint32_t kBlocksAtOnce = blocks_of(kDtypes, 3);
  struct Own {
    Scale scale;
    typename Encoder<Levels>::Thread encoder;
  };

  ValueSource<kDtypes> source;
  NormSource norms;
  Encoder<Levels> encoder;

  Quantize(const QuantizeArgs& args, const Levels& levels)
      : ValueStage(args.range, args.coding.rotated),
        source(args),
        norms(args.norms, args.coding.block),
        encoder{levels, Rounder(args), word_buffer<Levels::kBits>(args.words)} {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece.first_value, piece.value_count);
    source.set(piece.values);
    norms.set(piece.norms);
    encoder.set(piece.words);
  }

  GQ_DEVICE Own begin() const {
    return {norms.is_one() ? encoder.levels.scale_for_norm(*norms.one) : Scale(),
            encoder.thread_of(first_value, threadIdx.x * kThreadValues)};
  }
  GQ_DEVICE void give(const Place& place, const Own&, float (&value)[kThreadValues]) const {
    source.load(place, value);
  }
  GQ_DEVICE void take(const Place& place, Own& own, const float (&value)[kThreadValues]) const {
    if (!norms.is_one()) own.scale = encoder.levels.scale_for_norm(norms.at(place.offset));
    encoder.encode(own.encoder, place, own.scale, value);
  }
};

/** Without levels a code is the value's own pattern. */
template <Dtypes kDtypes = Dtypes::any>
struct QuantizeNone : ValueStage {
  static constexpr bool kMayRotate = false;
  ValueSource<kDtypes> source;
  PatternBuffer target;

  explicit QuantizeNone(const QuantizeArgs& args)
      : ValueStage(args.range, false),
        source(args),
        target(args.words) {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece.first_value, piece.value_count);
    source.set(piece.values);
    target.set(piece.words);
  }

  GQ_DEVICE void give(const Place& place, Nothing, float (&value)[kThreadValues]) const {
    source.load(place, value);
  }
  GQ_DEVICE void take(const Place& place, Nothing, const float (&value)[kThreadValues]) const {
    target.store(place, value);
  }
};

/** Calls `run` with the levels of a format's codes. */
template <typename Run>
StageError with_levels(const Coding& coding, Run run) {
  const bool byte_codes = coding.bits == 8;
  if (coding.levels == Levels::linear) {
    return byte_codes ? run(LinearLevels<8>{coding.steps}) : run(LinearLevels<4>{coding.steps});
  }
  if (coding.mantissa_bits > 0) return run(ExponentialLevels<8, 2>{coding.headroom});
  return byte_codes ? run(ExponentialLevels<8, 0>{coding.headroom})
                    : run(ExponentialLevels<4, 0>{coding.headroom});
}

}  // namespace gq::cuda

#endif
