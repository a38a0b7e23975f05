// Norms of blocks: the code of each one's largest magnitude.
#ifndef GQ_KERNELS_CUDA_BLOCK_NORMS_CUH
#define GQ_KERNELS_CUDA_BLOCK_NORMS_CUH

#include "kernels/codec/norm.h"
#include "kernels/cuda/launch/values_kernel.cuh"

namespace gq::cuda {

using NormCalls = StageCalls<NormArgs>;

/** 16-bit patterns are ordered as the float32 that they become: one conversion does. */
template <typename Element>
GQ_DEVICE void keep_largest_in(const Vector<4>& vector, uint32_t& largest) {
  if constexpr (sizeof(Element) == 2) {
    uint32_t pattern = 0;
    GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
      const uint32_t low = vector.word[k] & 0x7fffu, high = vector.word[k] >> 16 & 0x7fffu;
      const uint32_t here = low > high ? low : high;
      pattern = here > pattern ? here : pattern;
    }
    keep_largest(widened(Element{static_cast<uint16_t>(pattern)}), largest);
  } else {
    const auto* const element = reinterpret_cast<const Element*>(vector.word);
    GQ_UNROLL for (uint32_t e = 0; e < 16 / sizeof(Element); ++e) {
      keep_largest(widened(element[e]), largest);
    }
  }
}

struct BlockNormTarget {
  void* out;
  bool as_numbers;  ///< else codes

  GQ_DEVICE void store(uint64_t block, uint32_t largest) const {
    const uint16_t code = norm_code(largest);
    if (as_numbers) {
      static_cast<float*>(out)[block] = norm_from_code(code);
    } else {
      static_cast<uint16_t*>(out)[block] = code;
    }
  }
};

/** Sixteen values per thread, for long blocks and rotations; an iteration is many blocks, or one.
 */
template <Dtypes kDtypes = Dtypes::any>
struct BlockNorms : ValueStage {
  static constexpr uint32_t kBlocksAtOnce = blocks_of(kDtypes, 4);
  ValueSource<kDtypes> source;
  BlockIterations blocks;
  BlockNormTarget target;

  explicit BlockNorms(const NormArgs& args)
      : ValueStage(args.range, args.rotated),
        source(args),
        blocks(args.block),
        target{args.out, args.as_numbers} {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece.first_value, piece.value_count);
    source.set(piece.values);
    target.out = piece.words;
  }
  uint32_t iterations() const { return iterations_of(uint64_t{blocks.part_count} * kBlockValues); }

  /** One iteration: `load(part, values)` has what a thread has of each part, `first_place()` where
   *  the first one is. */
  template <typename Load, typename First>
  GQ_DEVICE void run(Load load, First first_place, BlockIterations::Shared& shared) const {
    uint32_t own = 0;
    for (uint32_t part = 0; part < blocks.part_count; ++part) {
      float value[kThreadValues];
      load(part, value);
      keep_largest_of(value, own);
    }
    const uint32_t largest = blocks.largest(own, shared);
    const Place first = first_place();
    if (blocks.begins(first.offset) && first.code_count > 0) {
      target.store(first.offset >> blocks.shift, largest);
    }
  }
};

template <typename Stage, typename Rotate>
__global__ void __launch_bounds__(kBlockThreads, Stage::kBlocksAtOnce)
    block_norms_kernel(const __grid_constant__ Pieces<Stage> pieces,
                       const __grid_constant__ KeyedStream signs) {
  __shared__ typename Rotate::Shared rotated;
  __shared__ BlockIterations::Shared shared;
  Rotate rotation(rotated, signs);
  for_each_piece(pieces, [&](const Stage& stage, const Iterations& iterations) {
    for (uint32_t k = iterations.first; k < iterations.end; k += gridDim.x) {
      const uint64_t number = uint64_t{k} * stage.blocks.part_count;
      const auto load = [&](uint32_t part, float (&value)[kThreadValues]) {
        const Place here = stage.place(number + part);
        stage.source.load(here, value);
        rotation.run(stage.first_value, here.offset, stage.code_count, value);
      };
      stage.run(load, [&] { return stage.place(number); }, shared);
    }
  });
}

/** Whole lines of memory for a warp: each thread has some vectors in an iteration, and neighbouring
 *  lanes have neighbouring ones. */
template <typename Element>
struct VectorStage : StageDefaults {
  static constexpr uint32_t kVectors = 4;  ///< that a thread has under way
  static constexpr uint32_t kElements = 16 / sizeof(Element);
  static constexpr uint32_t kStride = kWarpThreads * kElements;
  static constexpr uint32_t kWarpValues = kVectors * kStride;
  static constexpr uint32_t kIterationValues = kWarpValues * (kThreads / kWarpThreads);
  const Element* values;
  uint64_t value_count;
  bool vectors;

  GQ_HD void set(const Piece& piece) {
    values = static_cast<const Element*>(piece.values);
    value_count = piece.value_count;
    vectors = is_aligned(values, 16);
  }
  uint32_t iterations() const {
    return static_cast<uint32_t>((value_count + kIterationValues - 1) / kIterationValues);
  }

  GQ_DEVICE static uint64_t first_of(uint32_t iteration) {
    return uint64_t{iteration} * kIterationValues + threadIdx.x / kWarpThreads * kWarpValues +
           threadIdx.x % kWarpThreads * kElements;
  }
  /** The largest of each vector; beyond the end 0. */
  GQ_DEVICE void load(uint64_t first, uint32_t (&largest)[kVectors]) const {
    GQ_UNROLL for (uint32_t k = 0; k < kVectors; ++k) largest[k] = 0;
    if (vectors && first + (kVectors - 1) * kStride + kElements <= value_count) {
      Vector<4> vector[kVectors];
      GQ_UNROLL for (uint32_t k = 0; k < kVectors; ++k) {
        vector[k] = load_vector<4>(values + first + k * kStride);
      }
      GQ_UNROLL for (uint32_t k = 0; k < kVectors; ++k) {
        keep_largest_in<Element>(vector[k], largest[k]);
      }
      return;
    }
    GQ_UNROLL for (uint32_t k = 0; k < kVectors; ++k) {
      GQ_UNROLL for (uint32_t e = 0; e < kElements; ++e) {
        const uint64_t number = first + k * kStride + e;
        if (number < value_count) keep_largest(widened(values[number]), largest[k]);
      }
    }
  }
};

/** By warps, for blocks that are no longer than what a warp loads at once: no barrier and no shared
 *  memory. */
template <typename Element>
struct WarpNorms : VectorStage<Element> {
  using Base = VectorStage<Element>;
  using Base::kElements, Base::kStride, Base::kVectors;
  static constexpr uint32_t kBlockMax = Base::kWarpValues;
  BlockNormTarget target;
  uint32_t shift;  ///< log2 of a block

  explicit WarpNorms(const NormArgs& args)
      : target{args.out, args.as_numbers}, shift(block_log2(args.block)) {}

  GQ_HD void set(const Piece& piece) {
    Base::set(piece);
    target.out = piece.words;
  }

  GQ_DEVICE void run(uint32_t iteration) const {
    const uint32_t lane = threadIdx.x % kWarpThreads;
    const uint64_t first = this->first_of(iteration);
    uint32_t largest[kVectors];
    this->load(first, largest);
    const uint32_t lanes = (1u << shift) / kElements;  // of a block, a power of two
    if (lanes <= kWarpThreads) {
      GQ_UNROLL for (uint32_t k = 0; k < kVectors; ++k) {
        const uint32_t peak = largest_of_lanes(lanes, largest[k]);
        if ((lane & (lanes - 1)) == 0) store(first + k * kStride, peak);
      }
    } else {
      store_long(first, lane, lanes / kWarpThreads, largest);
    }
  }

 private:
  /** Blocks of `rows` vectors of each thread: 2, or all 4. */
  GQ_DEVICE void store_long(uint64_t first, uint32_t lane, uint32_t rows,
                            const uint32_t (&largest)[kVectors]) const {
    const uint32_t low = __reduce_max_sync(~0u, max(largest[0], largest[1]));
    const uint32_t high = __reduce_max_sync(~0u, max(largest[2], largest[3]));
    if (lane != 0) return;
    if (rows == kVectors) return store(first, max(low, high));
    store(first, low);
    store(first + 2 * kStride, high);
  }

  /** Of the block that begins with this value. */
  GQ_DEVICE void store(uint64_t first, uint32_t peak) const {
    if (first < this->value_count) target.store(first >> shift, peak);
  }
};

template <typename Element>
__global__ void __launch_bounds__(kBlockThreads, 3)
    warp_norms_kernel(const __grid_constant__ Pieces<WarpNorms<Element>> pieces) {
  for_each_piece(pieces, [](const WarpNorms<Element>& stage, const Iterations& iterations) {
    for (uint32_t k = iterations.first; k < iterations.end; k += gridDim.x) stage.run(k);
  });
}

}  // namespace gq::cuda

#endif
