// Wide reduce stage: the owner of a shard adds all operands as numbers and encodes the sum once.
#ifndef GQ_KERNELS_CUDA_REDUCE_MANY_CUH
#define GQ_KERNELS_CUDA_REDUCE_MANY_CUH

#include "kernels/cuda/encode.cuh"
#include "kernels/cuda/sums/operand_sums.cuh"

namespace gq::cuda {

/** The most that a wide sum is: the top code of all ranks. */
inline double full_sum(const Coding& coding) {
  if (coding.levels == Levels::linear) return static_cast<double>(coding.ranks) * coding.steps;
  return static_cast<double>(coding.ranks) * exponential_top(coding.mantissa_bits);
}

/** What all wide sums share: `full`, where all ranks hold their top code, is the most they are. */
template <typename Add, typename Levels>
struct WideSum : ValueStage {
  Add add;
  Encoder<Levels> encoder;
  double full;

  WideSum(const ReduceManyArgs& args, const Add& add, const Levels& levels)
      : ValueStage(args.range, args.coding.rotated),
        add(add),
        encoder{levels, Thresholds(args), args.coding.rounding == Rounding::nearest,
                word_buffer<Levels::kBits>(args.out_words)},
        full(full_sum(args.coding)) {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece.first_value, piece.value_count);
    add.operands.set(piece.values);
    encoder.set(piece.words);
  }
};

/** Wide sums under one scale. */
template <typename Add, typename Levels>
struct ReduceMany : WideSum<Add, Levels> {
  using WideSum<Add, Levels>::WideSum;
  using List = typename Add::List;
  static constexpr uint32_t kBlocksAtOnce = Add::kBlocksAtOnce;

  GQ_DEVICE void run(const Iterations& iterations, const List& list,
                     BlockIterations::Shared& shared) const {
    run_at([&](uint64_t k) { return this->place(k); }, iterations, list, shared);
  }
  /** `place_at(k)`: what a thread has of iteration k, which may end before the range does. */
  template <typename PlaceAt>
  GQ_DEVICE void run_at(PlaceAt place_at, const Iterations& iterations, const List& list,
                        BlockIterations::Shared&) const {
    const Scale scale = this->encoder.levels.scale_for_norm(static_cast<float>(this->full));
    for (uint32_t k = iterations.first; k < iterations.end; k += gridDim.x) {
      const Place place = place_at(k);
      if (place.code_count == 0) continue;
      float value[kThreadValues];
      this->add.add(list, place, value);
      this->encoder.encode(this->first_value, place, scale, value);
    }
  }
};

/** Wide sums of which each block gets a scale of its own (rescale): threads find the peak of their
 *  block and then encode it. Blocks longer than a block of threads are added twice, for their peak
 *  and for their codes: that needs no memory. */
template <typename Add, typename Levels>
struct ReduceManyRescaled : WideSum<Add, Levels> {
  using Sum = WideSum<Add, Levels>;
  using List = typename Add::List;
  static constexpr uint32_t kBlocksAtOnce = 2;  // its sums do not fit into 80 registers
  NormSource norms;
  BlockIterations blocks;
  uint16_t* out_scales;

  ReduceManyRescaled(const ReduceManyArgs& args, const Add& add, const Levels& levels)
      : Sum(args, add, levels),
        norms(args.norms, args.coding.block),
        blocks(args.coding.block),
        out_scales(args.out_scales) {}

  GQ_HD void set(const Piece& piece) {
    Sum::set(piece);
    if constexpr (Add::kOwnScales) {
      this->add.scales_bytes = piece.scales_bytes;
    } else {
      norms.set(piece.norms);
    }
    out_scales = static_cast<uint16_t*>(piece.scales);
  }
  uint32_t iterations() const {
    return this->iterations_of(uint64_t{blocks.part_count} * kBlockValues);
  }

  GQ_DEVICE void run(const Iterations& iterations, const List& list,
                     BlockIterations::Shared& shared) const {
    run_at([&](uint64_t k) { return this->place(k); }, iterations, list, shared);
  }
  /** As ReduceMany; a part of a block is an iteration of `place_at`. */
  template <typename PlaceAt>
  GQ_DEVICE void run_at(PlaceAt place_at, const Iterations& iterations, const List& list,
                        BlockIterations::Shared& shared) const {
    for (uint32_t k = iterations.first; k < iterations.end; k += gridDim.x) {
      const uint64_t first = uint64_t{k} * blocks.part_count;
      float value[kThreadValues];
      uint32_t own = 0;
      for (uint32_t part = 0; part < blocks.part_count; ++part) {
        add_and_keep(list, place_at(first + part), value, own);
      }
      const uint32_t peak = blocks.largest(own, shared);
      const Place here = place_at(first);
      if (blocks.part_count == 1 && here.code_count == 0) continue;
      const Rescaled made = rescaled_by(here, peak);
      for (uint32_t part = 0; part < blocks.part_count; ++part) {
        const Place place = place_at(first + part);
        if (blocks.part_count > 1) this->add.add(list, place, value);
        if (place.code_count > 0) encode(place, made, value);
      }
      // One operand's scale may be in this place.
      if (Add::kOwnScales && blocks.part_count > 1) __syncthreads();
      if (here.code_count > 0) write_scale(here, made);
    }
  }

 private:
  GQ_DEVICE void add_and_keep(const List& list, const Place& place,
                              float (&value)[kThreadValues], uint32_t& largest) const {
    this->add.add(list, place, value);
    if (place.code_count < kThreadValues) {
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        value[e] = e < place.code_count ? value[e] : 0;
      }
    }
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      largest = max(largest, magnitude_bits(value[e]));
    }
  }
  /** peak: the largest sum's pattern. */
  GQ_DEVICE Rescaled rescaled_by(const Place& place, uint32_t peak) const {
    if constexpr (Add::kOwnScales) {
      return rescaled_means(peak);
    } else {
      return rescaled(norms.at(place.offset), float_from_bits(peak), this->full);
    }
  }
  GQ_DEVICE void write_scale(const Place& place, const Rescaled& made) const {
    if (blocks.begins(place.offset)) out_scales[place.offset >> blocks.shift] = made.code;
  }
  GQ_DEVICE void encode(const Place& place, const Rescaled& made,
                        const float (&value)[kThreadValues]) const {
    const Scale scale = this->encoder.levels.scale_for_norm(made.sum_norm);
    this->encoder.encode(this->first_value, place, scale, value);
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

  GQ_DEVICE void run(const Iterations& iterations, const OperandList& list,
                     BlockIterations::Shared&) const {
    for (uint32_t k = iterations.first; k < iterations.end; k += gridDim.x) {
      const Place here = place(k);
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
    stage.run(iterations, list, shared);
  });
}

}  // namespace gq::cuda

#endif
