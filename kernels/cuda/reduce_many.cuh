// Wide reduce stage: the owner of a shard adds all operands as numbers and encodes the sum once.
#ifndef GQ_KERNELS_CUDA_REDUCE_MANY_CUH
#define GQ_KERNELS_CUDA_REDUCE_MANY_CUH

#include "kernels/cuda/encode.cuh"
#include "kernels/cuda/operand_sums.cuh"

namespace gq::cuda {

/** The most that a wide sum is: the top code of all ranks. */
inline double full_sum(const Coding& coding) {
  if (coding.levels == Levels::linear) return static_cast<double>(coding.ranks) * coding.steps;
  return static_cast<double>(coding.ranks) * exponential_top(coding.mantissa_bits);
}

/** Wide sums under one scale. With kRescale each block gets a scale of its own: threads find the
 *  peak of their block and then encode it. Blocks longer than a block of threads are added twice,
 *  for their peak and for their codes: that needs no memory. */
template <typename Add, typename Levels, bool kRescale>
struct ReduceMany : ValueStage {
  using List = typename Add::List;
  static constexpr uint32_t kBlocksAtOnce = kRescale ? Add::kBlocksRescaled : Add::kBlocksAtOnce;
  Add add;
  Encoder<Levels> encoder;
  double full;  ///< the most that sums are: all ranks hold their top code
  NormSource norms;
  BlockIterations blocks;
  uint16_t* out_scales;

  ReduceMany(const ReduceManyArgs& args, const Add& add, const Levels& levels)
      : ValueStage(args.range, args.coding.rotated),
        add(add),
        encoder{levels, Rounder(args), word_buffer<Levels::kBits>(args.out_words)},
        full(full_sum(args.coding)),
        norms(args.norms, args.coding.block),
        blocks(args.coding.block),
        out_scales(args.out_scales) {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece.first_value, piece.value_count);
    add.operands.set(piece.values);
    encoder.set(piece.words);
    if constexpr (Add::kOwnScales) {
      add.scales_bytes = piece.scales_bytes;
    } else {
      norms.set(piece.norms);
    }
    out_scales = static_cast<uint16_t*>(piece.scales);
  }
  uint32_t iterations() const {
    return iterations_of((kRescale ? uint64_t{blocks.part_count} : 1) * kBlockValues);
  }

  /** `place_at(k)`: what a thread has of iteration k, or of part k of blocks, which may end before
   *  the range does. */
  template <typename PlaceAt>
  GQ_DEVICE void run(PlaceAt place_at, const Iterations& iterations, const List& list,
                     BlockIterations::Shared& shared) const {
    const Scale scale = kRescale ? Scale() : scale_for(static_cast<float>(full));
    for (uint32_t k = iterations.first; k < iterations.end; k += gridDim.x) {
      if constexpr (kRescale) {
        run_rescaled(place_at, uint64_t{k} * blocks.part_count, list, shared);
      } else {
        const Place place = place_at(k);
        if (place.code_count == 0) continue;
        float value[kThreadValues];
        add.add(list, place, value);
        encoder.encode(first_value, place, scale, value);
      }
    }
  }

 private:
  GQ_DEVICE Scale scale_for(float norm) const { return encoder.levels.scale_for_norm(norm); }

  template <typename PlaceAt>
  GQ_DEVICE void run_rescaled(PlaceAt place_at, uint64_t first, const List& list,
                              BlockIterations::Shared& shared) const {
    float value[kThreadValues];
    uint32_t own = 0;
    for (uint32_t part = 0; part < blocks.part_count; ++part) {
      const Place place = place_at(first + part);
      add.add(list, place, value);
      if (place.code_count < kThreadValues) {
        GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
          value[e] = e < place.code_count ? value[e] : 0;
        }
      }
      keep_largest_of(value, own);
    }
    const uint32_t peak = blocks.largest(own, shared);
    const Place here = place_at(first);
    if (blocks.part_count == 1 && here.code_count == 0) return;
    const Rescaled made = rescaled_by(here, peak);
    const Scale scale = scale_for(made.sum_norm);
    for (uint32_t part = 0; part < blocks.part_count; ++part) {
      const Place place = place_at(first + part);
      if (blocks.part_count > 1) add.add(list, place, value);
      if (place.code_count > 0) encoder.encode(first_value, place, scale, value);
    }
    // One operand's scale may be in this place.
    if (Add::kOwnScales && blocks.part_count > 1) __syncthreads();
    if (here.code_count > 0 && blocks.begins(here.offset)) {
      out_scales[here.offset >> blocks.shift] = made.code;
    }
  }
  /** peak: the largest sum's pattern. */
  GQ_DEVICE Rescaled rescaled_by(const Place& place, uint32_t peak) const {
    if constexpr (Add::kOwnScales) return rescaled_means(peak);
    return rescaled(norms.at(place.offset), float_from_bits(peak), full);
  }
};

/** Sums of float32, in rank order. */
struct ReduceManyNone : ValueStage {
  using List = OperandList;
  Operands operands;
  PatternBuffer target;

  explicit ReduceManyNone(const ReduceManyArgs& args)
      : ValueStage(args.range, false),
        operands(args),
        target(args.out_words) {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece.first_value, piece.value_count);
    operands.set(piece.values);
    target.set(piece.words);
  }

  template <typename PlaceAt>
  GQ_DEVICE void run(PlaceAt place_at, const Iterations& iterations, const OperandList& list,
                     BlockIterations::Shared&) const {
    for (uint32_t k = iterations.first; k < iterations.end; k += gridDim.x) {
      const Place here = place_at(k);
      if (here.code_count == 0) continue;
      float value[kThreadValues];
      PatternBuffer(operands.words_of(list, 0)).load(here, value);
      for (uint32_t n = 1; n < operands.count; ++n) {
        float other[kThreadValues];
        PatternBuffer(operands.words_of(list, n)).load(here, other);
        GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
          value[e] = canonical(value[e] + other[e]);
        }
      }
      target.store(here, value);
    }
  }
};

template <typename Stage>
__global__ void __launch_bounds__(kBlockThreads, Stage::kBlocksAtOnce)
    reduce_many_kernel(const __grid_constant__ Pieces<Stage> pieces,
                       const __grid_constant__ typename Stage::List list) {
  __shared__ BlockIterations::Shared shared;
  for_each_piece(pieces, [&](const Stage& stage, const Iterations& iterations) {
    stage.run([&](uint64_t k) { return stage.place(k); }, iterations, list, shared);
  });
}

}  // namespace gq::cuda

#endif
