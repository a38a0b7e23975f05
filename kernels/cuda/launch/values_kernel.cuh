// Kernels over float32 values, sixteen per thread: a stage gives them, from memory or from codes,
// and takes them, plain or rotated in between (docs/FORMAT.md, section 12).
#ifndef GQ_KERNELS_CUDA_LAUNCH_VALUES_KERNEL_CUH
#define GQ_KERNELS_CUDA_LAUNCH_VALUES_KERNEL_CUH

#include "kernels/codec/block_norm.h"
#include "kernels/cuda/launch/pieces.cuh"
#include "kernels/cuda/rotate.cuh"
#include "kernels/cuda/values.cuh"

namespace gq::cuda {

inline constexpr uint32_t kBlockValues = kBlockThreads * kThreadValues;

/** What a thread keeps of a stage that keeps nothing. */
struct Nothing {};

/** A range as threads divide it. Stages have give(place, own, value), which makes zeros beyond the
 *  end, and take(place, own, value), where `own` is what a thread keeps of a piece. */
struct ValueStage : StageDefaults {
  static constexpr bool kMayRotate = true;
  uint64_t first_value;
  uint64_t value_count;
  uint64_t code_count;
  bool is_rotated;

  ValueStage(const Range& range, bool rotated) : is_rotated(rotated) {
    set_range(range.first_value, range.value_count);
  }

  GQ_HD void set_range(uint64_t first, uint64_t count) {
    first_value = first;
    value_count = count;
    code_count = gq::code_count(is_rotated, count);
  }
  uint32_t iterations() const { return iterations_of(kBlockValues); }

  GQ_DEVICE Place place_at(uint64_t base, uint32_t within) const {
    const uint64_t offset = base + within;
    return {offset, count_here(offset, value_count), count_here(offset, code_count), base, within,
            is_full_warp(offset, value_count)};
  }
  GQ_DEVICE Place place(uint64_t iteration) const {
    return place_at(iteration * kBlockValues, threadIdx.x * kThreadValues);
  }

  GQ_DEVICE Nothing begin() const { return {}; }
  /** All threads of a block come here after a piece. */
  template <typename Own>
  GQ_DEVICE void end(const Own&) const {}

 protected:
  uint32_t iterations_of(uint64_t iteration_values) const {
    return static_cast<uint32_t>((code_count + iteration_values - 1) / iteration_values);
  }
};

/** The values of a stage, rotated in between (Rotation), or back, or not (NoRotation). */
template <typename Stage, typename Rotate>
__global__ void __launch_bounds__(Stage::kThreads, Stage::kBlocksAtOnce)
    values_kernel(const __grid_constant__ Pieces<Stage> pieces,
                  const __grid_constant__ KeyedStream signs, const Gate gate) {
  __shared__ typename Rotate::Shared shared;
  if (!is_open(gate)) return;
  Rotate rotation(shared, signs);
  for_each_piece(pieces, [&](const Stage& stage, const Iterations& iterations) {
    auto own = stage.begin();
    for (uint32_t k = iterations.first; k < iterations.end; k += gridDim.x) {
      const Place place = stage.place(k);
      if (!Rotate::kTogether && place.code_count == 0) continue;
      float value[kThreadValues];
      stage.give(place, own, value);
      rotation.run(stage.first_value, place.offset, stage.code_count, value);
      if (place.code_count > 0) stage.take(place, own, value);
    }
    stage.end(own);
  });
}

/** The code of a block's number: the grid's own numbers are what they were. */
GQ_DEVICE uint16_t code_of_number(float number) {
  return norm_code(float_bits(number) & kMagnitudeMask);
}

/** Norms or scales: one, or those of blocks. */
struct NormSource {
  const float* one;
  const uint16_t* blocks;
  const float* numbers;
  uint32_t shift;  ///< log2 of a block

  NormSource(const NormView& view, uint32_t block)
      : one(view.one), blocks(view.blocks), numbers(view.numbers), shift(block_log2(block)) {}

  /** The same kind, of a piece. */
  GQ_HD void set(const void* norms) {
    if (one != nullptr) one = static_cast<const float*>(norms);
    if (blocks != nullptr) blocks = static_cast<const uint16_t*>(norms);
    if (numbers != nullptr) numbers = static_cast<const float*>(norms);
  }

  GQ_DEVICE bool is_one() const { return one != nullptr; }
  GQ_DEVICE float at(uint64_t offset) const {
    if (is_one()) return *one;
    const uint64_t block = offset >> shift;
    assume_global(blocks);
    assume_global(numbers);
    return norm_from_code(blocks != nullptr ? blocks[block] : code_of_number(numbers[block]));
  }
};

/** The largest of as many neighbouring lanes, a power of two: all lanes of a warp come here. Not by
 *  cub::WarpReduce, which takes their number at compile time. Groups of one mask each would take
 *  turns. */
GQ_DEVICE uint32_t largest_of_lanes(uint32_t lanes, uint32_t own) {
  if (lanes == kWarpThreads) return __reduce_max_sync(~0u, own);
  for (uint32_t distance = 1; distance < lanes; distance *= 2) {
    own = max(own, __shfl_xor_sync(~0u, own, distance));
  }
  return own;
}

/** Blocks of norms in an iteration: many of them, or parts of one. */
struct BlockIterations {
  uint32_t shift;
  uint32_t part_count;  ///< of a block

  explicit BlockIterations(uint32_t block)
      : shift(block_log2(block)), part_count(block > kBlockValues ? block / kBlockValues : 1) {}

  /** Whether a block begins with this value. */
  GQ_DEVICE bool begins(uint64_t offset) const {
    return (offset & ((uint64_t{1} << shift) - 1)) == 0;
  }

  using Shared = uint32_t[kBlockThreads / kWarpThreads];

  /** The largest of the threads whose values are in one block of norms, or in one part of it: all
   *  threads come here. */
  GQ_DEVICE uint32_t largest(uint32_t own, Shared& shared) const {
    const uint32_t lane = threadIdx.x % kWarpThreads, warp = threadIdx.x / kWarpThreads;
    const uint32_t threads = (1u << shift) / kThreadValues;
    uint32_t largest = largest_of_lanes(min(threads, kWarpThreads), own);
    if (threads <= kWarpThreads) return largest;
    __syncthreads();  // threads may still read what was shared last
    if (lane == 0) shared[warp] = largest;
    __syncthreads();
    const uint32_t warps = min(threads, kBlockThreads) / kWarpThreads;
    const uint32_t first = warp & ~(warps - 1);
    for (uint32_t k = 0; k < warps; ++k) largest = max(largest, shared[first + k]);
    return largest;
  }
};

/** Calls of a stage over values, rotated if the format has rotations. */
template <bool kBack, typename Stage, typename Args>
StageError run_value_stage(const Launcher& launcher, const StageCalls<Args>& calls,
                           const Stage& stage) {
  const KeyedStream signs = shared_stream(calls.first().random, Draw::signs);
  const Gate& gate = launcher.gate();
  if constexpr (Stage::kMayRotate) {
    using Rotate = Rotation<kBack, Stage::kThreads>;
    if (stage.is_rotated) {
      return calls.template run<values_kernel<Stage, Rotate>>(launcher, stage, signs, gate);
    }
  }
  return calls.template run<values_kernel<Stage, NoRotation>>(launcher, stage, signs, gate);
}

}  // namespace gq::cuda

#endif
