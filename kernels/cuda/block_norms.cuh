// Norms of blocks: the code of each one's largest magnitude.
#ifndef GQ_KERNELS_CUDA_BLOCK_NORMS_CUH
#define GQ_KERNELS_CUDA_BLOCK_NORMS_CUH

#include "kernels/codec/norm.h"
#include "kernels/cuda/launch/work.cuh"

namespace gq::cuda {

using NormCalls = StageCalls<NormArgs>;

inline Piece piece_of(const NormArgs& args) {
  return {args.range.first_value, args.range.value_count, args.values, nullptr, args.out};
}

GQ_HD void keep_largest(float value, uint32_t& largest) {
  const uint32_t magnitude = magnitude_bits(value);
  largest = magnitude > largest ? magnitude : largest;
}

/** 16-bit patterns are ordered as the float32 that they become: one conversion does. */
template <typename Element>
GQ_HD void keep_largest_in(const Vector<4>& vector, uint32_t& largest) {
  if constexpr (sizeof(Element) == 2) {
    uint32_t pattern = 0;
    GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
      const uint32_t low = vector.word[k] & 0x7fffu, high = vector.word[k] >> 16 & 0x7fffu;
      const uint32_t here = low > high ? low : high;
      pattern = here > pattern ? here : pattern;
    }
    keep_largest(widened(Element{static_cast<uint16_t>(pattern)}), largest);
  } else {
    GQ_UNROLL for (uint32_t e = 0; e < 16 / sizeof(Element); ++e) {
      keep_largest(widened(element_in<Element>(vector.word, e)), largest);
    }
  }
}

struct PeakShared {
  uint32_t peak[BlockIterations::kBlocksMax];
};

/** The code of each block's largest magnitude. */
struct BlockPeaks : WorkDefaults {
  static constexpr uint32_t kCloseIntervals = 1;
  static constexpr bool kShares = true;
  static constexpr bool kIterationBarriers = true;
  using Shared = PeakShared;
  using Here = Local<Shared, Nothing>;
  ValueSource source;
  BlockIterations blocks;
  uint16_t* codes;
  float* numbers;

  explicit BlockPeaks(const NormArgs& args)
      : WorkDefaults(args.range, args.rotated),
        source(args.values, args.dtype),
        blocks(args.block, code_count),
        codes(args.as_numbers ? nullptr : static_cast<uint16_t*>(args.out)),
        numbers(args.as_numbers ? static_cast<float*>(args.out) : nullptr) {
    set_parts(blocks.part_count);
  }

  GQ_HD void set(const Piece& piece) {
    set_range(piece);
    source.set(piece.values);
    blocks.set(code_count);
    if (codes != nullptr) codes = static_cast<uint16_t*>(piece.words);
    if (numbers != nullptr) numbers = static_cast<float*>(piece.words);
  }

  GQ_HD void open(uint32_t, Here local) const {
    if (local.thread < BlockIterations::kBlocksMax) local.shared.peak[local.thread] = 0;
  }
  GQ_HD void give(const Place& place, Here, float (&value)[kThreadValues]) const {
    source.load(place.offset, place.value_count, value);
  }
  GQ_HD void take(const Place& place, Here local, const float (&value)[kThreadValues]) const {
    uint32_t largest = 0;
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) keep_largest(value[e], largest);
    raise(&local.shared.peak[blocks.number_of(place)], largest);
  }
  GQ_HD void close(Interval<0>, uint32_t iteration, Here local) const {
    const uint64_t number = blocks.first_of(iteration) + local.thread;
    const bool in_turn = number < blocks.first_of(iteration + 1) && number < blocks.norm_count;
    if (!in_turn) return;
    const uint16_t code = norm_code(local.shared.peak[local.thread]);
    if (numbers != nullptr) {
      numbers[number] = norm_from_code(code);
    } else {
      codes[number] = code;
    }
  }
};

#if defined(__CUDACC__)
/** The same by warps, for blocks that are no longer than what a warp loads at once: whole lines of
 *  memory, no barrier and no shared memory. Not on a CPU, which has no warps. */
template <typename Element>
struct WarpPeaks : BodyDefaults {
  static constexpr uint32_t kVectors = 4;  ///< that a thread has under way
  static constexpr uint32_t kElements = 16 / sizeof(Element);
  static constexpr uint32_t kWarpValues = kVectors * kWarpThreads * kElements;
  static constexpr uint32_t kIterationValues = kWarpValues * (kThreads / kWarpThreads);
  static constexpr uint32_t kBlockMax = kWarpValues;
  static constexpr uint32_t kBlockMin = kElements;
  using Here = Local<Nothing, Nothing>;
  const Element* values;
  uint64_t value_count;
  uint16_t* codes;
  float* numbers;
  uint32_t shift;  ///< log2 of a block
  bool vectors;

  explicit WarpPeaks(const NormArgs& args)
      : codes(args.as_numbers ? nullptr : static_cast<uint16_t*>(args.out)),
        numbers(args.as_numbers ? static_cast<float*>(args.out) : nullptr),
        shift(block_log2(args.block)) {
    set(piece_of(args));
  }

  GQ_HD void set(const Piece& piece) {
    values = static_cast<const Element*>(piece.values);
    value_count = piece.value_count;
    vectors = is_aligned(values, 16);
    if (codes != nullptr) codes = static_cast<uint16_t*>(piece.words);
    if (numbers != nullptr) numbers = static_cast<float*>(piece.words);
  }
  uint32_t iterations() const {
    return static_cast<uint32_t>((value_count + kIterationValues - 1) / kIterationValues);
  }

  __device__ void run(Interval<0>, uint32_t iteration, uint32_t, Here local) const {
    const uint32_t lane = local.thread % kWarpThreads;
    const uint64_t first = uint64_t{iteration} * kIterationValues +
                           local.thread / kWarpThreads * kWarpValues + lane * kElements;
    uint32_t largest[kVectors];
    load(first, largest);
    const uint32_t lanes = (1u << shift) / kElements;  // of a block, a power of two
    if (lanes <= kWarpThreads) {
      const uint32_t all = lanes == kWarpThreads ? ~0u : (1u << lanes) - 1;
      const uint32_t group = all << (lane & ~(lanes - 1));
      GQ_UNROLL for (uint32_t k = 0; k < kVectors; ++k) {
        const uint32_t peak = __reduce_max_sync(group, largest[k]);
        if ((lane & (lanes - 1)) == 0) store(first + k * kWarpThreads * kElements, peak);
      }
    } else {
      store_long(first, lane, lanes / kWarpThreads, largest);
    }
  }

 private:
  /** Beyond the end 0. */
  __device__ void load(uint64_t first, uint32_t (&largest)[kVectors]) const {
    constexpr uint32_t kStride = kWarpThreads * kElements;
    if (vectors && first + (kVectors - 1) * kStride + kElements <= value_count) {
      Vector<4> vector[kVectors];
      GQ_UNROLL for (uint32_t k = 0; k < kVectors; ++k) {
        vector[k] = load_vector<4>(values + first + k * kStride);
      }
      GQ_UNROLL for (uint32_t k = 0; k < kVectors; ++k) {
        largest[k] = 0;
        keep_largest_in<Element>(vector[k], largest[k]);
      }
      return;
    }
    GQ_UNROLL for (uint32_t k = 0; k < kVectors; ++k) {
      largest[k] = 0;
      GQ_UNROLL for (uint32_t e = 0; e < kElements; ++e) {
        const uint64_t number = first + k * kStride + e;
        if (number < value_count) keep_largest(widened(values[number]), largest[k]);
      }
    }
  }

  /** Blocks of `rows` vectors of each thread: 2, or all 4. */
  __device__ void store_long(uint64_t first, uint32_t lane, uint32_t rows,
                             const uint32_t (&largest)[kVectors]) const {
    const uint32_t low = largest[0] > largest[1] ? largest[0] : largest[1];
    const uint32_t high = largest[2] > largest[3] ? largest[2] : largest[3];
    const uint32_t low_peak = __reduce_max_sync(~0u, low);
    const uint32_t high_peak = __reduce_max_sync(~0u, high);
    if (lane != 0) return;
    if (rows == kVectors) return store(first, low_peak > high_peak ? low_peak : high_peak);
    store(first, low_peak);
    store(first + 2 * kWarpThreads * kElements, high_peak);
  }

  /** Of the block that begins with this value. */
  __device__ void store(uint64_t first, uint32_t peak) const {
    if (first >= value_count) return;
    const uint16_t code = norm_code(peak);
    if (numbers != nullptr) {
      numbers[first >> shift] = norm_from_code(code);
    } else {
      codes[first >> shift] = code;
    }
  }
};
#endif

template <typename Launcher>
StageError block_norms_on(Launcher& launch, const NormCalls& calls) {
  const NormArgs& args = calls.first();
#if defined(__CUDACC__)
  const auto by_warps = [&]<typename Element>(Element) {
    return calls.run(launch, WarpPeaks<Element>(args));
  };
  if (!args.rotated && args.block <= WarpPeaks<double>::kBlockMax) {
    if (args.dtype == GQSGD_FLOAT32) return by_warps(float{});
    if (args.dtype == GQSGD_BFLOAT16) return by_warps(Bfloat{});
    if (args.dtype == GQSGD_FLOAT16) return by_warps(Half{});
    return by_warps(double{});
  }
#endif
  return start<false>(launch, calls, BlockPeaks(args), args.rotated);
}

}  // namespace gq::cuda

#endif
