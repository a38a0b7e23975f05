// Stages of adaptive widths on a device: groups of a call as blocks of threads divide them. A
// thread has sixteen values, those of one random counter; eight threads have a block of values.
#ifndef GQ_KERNELS_CUDA_ADAPTIVE_GROUP_STAGE_CUH
#define GQ_KERNELS_CUDA_ADAPTIVE_GROUP_STAGE_CUH

#include "kernels/codec/block_norm.h"
#include "kernels/codec/groups.h"
#include "kernels/cuda/adaptive/group_widths.cuh"
#include "kernels/cuda/launch/search.cuh"
#include "kernels/cuda/launch/values_kernel.cuh"

namespace gq::cuda {

/** Threads that share a block of values. */
inline constexpr uint32_t kSharers = kAdaptiveBlock / kThreadValues;
/** Blocks of values that a block of threads has at once. */
inline constexpr uint32_t kTileBlocks = kBlockThreads / kSharers;
/** Half words of a plane: each sharer has one. */
inline constexpr uint32_t kPlaneHalves = kPlaneWords * 2;
static_assert(kPlaneHalves == kSharers && kWarpThreads % kSharers == 0);

/** Blocks first_block .. end_block - 1 of a group: an iteration of a block of threads. */
struct GroupUnit {
  uint32_t group;        ///< in the piece
  uint64_t first_value;  ///< of the group, in the call
  uint32_t block_count;  ///< of the group
  uint32_t plane_count;
  uint32_t first_block, end_block;
};

/** Values of a thread in a buffer. */
struct ThreadPlace {
  const void* values;    ///< null: there are none
  uint64_t first_value;  ///< of the buffer, in the call
  Place in_buffer;
};

/** Values of a call, or of one tensor in it, in a buffer. */
struct GroupBuffer {
  const void* values;
  uint64_t first_value;  ///< in the call
  uint64_t value_count;
};

/** A piece that is whole groups. */
struct GroupedRange : StageDefaults {
  Groups groups;
  const SegmentPlace* segments;
  uint32_t segment_count;
  uint64_t first_value = 0, value_count = 0;
  const void* values = nullptr;

  explicit GroupedRange(const GroupedValues& grouped)
      : groups(grouped.groups),
        segments(grouped.segments),
        segment_count(grouped.segment_count) {}

  GQ_HD void set(const Piece& piece) {
    first_value = piece.first_value;
    value_count = piece.value_count;
    values = piece.values;
  }
  uint32_t group_count() const {
    return static_cast<uint32_t>(divided_up(value_count, groups.group_values));
  }
  /** Values of the call, or of the slice, are below it. */
  GQ_DEVICE uint64_t end() const {
    return groups.interleaved ? groups.value_count : first_value + value_count;
  }

  /** Of a value of the call. */
  template <typename Memory>
  GQ_DEVICE GroupBuffer buffer_of(uint64_t value, Memory SegmentPlace::*memory) const {
    if (segments == nullptr) {
      const uint64_t first = groups.interleaved ? 0 : first_value;
      return {values, first, end() - first};
    }
    const SegmentPlace& segment = segments[last_begun(
        segment_count, value, [&](uint32_t k) { return segments[k].first_value; })];
    assume_global(segment.*memory);
    return {segment.*memory, segment.first_value, segment.value_count};
  }
};

/** The stages of adaptive widths. */
struct GroupStage : GroupedRange {
  /** So many fill a device. */
  static constexpr uint32_t kUnitsAtLeast = 1024;
  uint32_t mean_half_bits;
  uint32_t unit_blocks;  ///< of a group, that an iteration takes
  bool by_value;  ///< norms and scales are numbers, and all of blocks is in the order of values

  /** Iterations are shorter than groups where these are too few for a device. */
  GroupStage(const GroupedValues& grouped, uint32_t mean_half_bits, const NormView& norms,
             uint64_t values_in_all)
      : GroupedRange(grouped),
        mean_half_bits(mean_half_bits),
        unit_blocks(kGroupBlocks),
        by_value(norms.numbers != nullptr) {
    const uint64_t group_count = values_in_all / groups.group_values + 1;
    while (unit_blocks > kTileBlocks &&
           group_count * (kGroupBlocks / unit_blocks) < kUnitsAtLeast) {
      unit_blocks /= 2;
    }
  }

  GQ_HD uint32_t blocks_of_group() const { return groups.group_values / kAdaptiveBlock; }
  GQ_HD uint32_t units_of_group() const {
    return static_cast<uint32_t>(divided_up(blocks_of_group(), unit_blocks));
  }
  uint32_t iterations() const { return group_count() * units_of_group(); }

  GQ_DEVICE GroupUnit unit(uint32_t iteration) const {
    const uint32_t units = units_of_group(), here = iteration / units;
    const uint64_t group = first_value / groups.group_values + here;
    const uint32_t count = groups.value_count_of(group, end());
    const auto blocks = static_cast<uint32_t>(adaptive_blocks(count));
    const uint32_t first = (iteration - here * units) * unit_blocks;
    const uint32_t planes = groups.planes_of_group(blocks, mean_half_bits);
    const uint32_t end_block = min(first + unit_blocks, blocks);
    return {here, groups.first_value(group), blocks, planes, first, end_block};
  }

  /** The value that a thread's first one is in the call; of a block of the group. */
  GQ_DEVICE uint64_t value_of(const GroupUnit& unit, uint32_t block) const {
    return unit.first_value + block / kGranuleBlocks * groups.stride_values() +
           block % kGranuleBlocks * kAdaptiveBlock + threadIdx.x % kSharers * kThreadValues;
  }

  /** Of a thread that shares the block. A warp's blocks are in one granule. */
  template <typename Memory>
  GQ_DEVICE ThreadPlace place_of(const GroupUnit& unit, uint32_t block,
                                 Memory SegmentPlace::*memory) const {
    const uint64_t value = value_of(unit, block);
    const bool warp_has_blocks = (block | (kWarpThreads / kSharers - 1)) < unit.end_block;
    const GroupBuffer buffer = buffer_of(value, memory);
    return {buffer.values, buffer.first_value,
            in_buffer(value - buffer.first_value, buffer.value_count, warp_has_blocks)};
  }

  /** Where norms, scales and widths have a block of the group. */
  GQ_DEVICE uint64_t block_offset(const GroupUnit& unit, uint32_t block) const {
    if (!by_value) return uint64_t{unit.group} * blocks_of_group() + block;
    // Not shared with value_of(), so that registers suffice for what comes between the two.
    const uint64_t stride = kept(groups.stride_values());
    const uint64_t granule = unit.first_value + block / kGranuleBlocks * stride;
    return granule / kAdaptiveBlock + block % kGranuleBlocks;
  }
  /** The code of a block's norm or scale. */
  GQ_DEVICE uint16_t code_of(const void* norms, const GroupUnit& unit, uint32_t block) const {
    const uint64_t offset = block_offset(unit, block);
    if (by_value) return code_of_number(static_cast<const float*>(norms)[offset]);
    return static_cast<const uint16_t*>(norms)[offset];
  }
  /** That of a thread's own block of the group, as widths are found; 0 beyond the last. */
  GQ_DEVICE uint16_t code_of_thread(const void* norms, const GroupUnit& unit) const {
    return threadIdx.x < unit.block_count ? code_of(norms, unit, threadIdx.x) : uint16_t{0};
  }
  GQ_DEVICE uint64_t word_offset(const GroupUnit& unit) const {
    return uint64_t{unit.group} * groups.group_planes * kPlaneWords;
  }

 private:
  GQ_DEVICE static Place in_buffer(uint64_t offset, uint64_t total, bool warp_has_blocks) {
    const uint32_t count = count_here(offset, total);
    return {offset, count, count, offset, 0, warp_has_blocks && is_full_warp(offset, total)};
  }
};

/** The block of values that a thread shares in a tile, which begins with block `first`. */
GQ_DEVICE uint32_t block_of_thread(uint32_t first) { return first + threadIdx.x / kSharers; }

/** All iterations of a block of threads. */
template <typename Stage>
__global__ void __launch_bounds__(kBlockThreads, Stage::kBlocksAtOnce)
    groups_kernel(const __grid_constant__ Pieces<Stage> pieces, const Gate gate) {
  __shared__ typename Stage::Shared shared;
  if (!is_open(gate)) return;
  for_each_piece(pieces, [&](const Stage& stage, const Iterations& iterations) {
    for (uint32_t k = iterations.first; k < iterations.end; k += gridDim.x) {
      stage.run(stage.unit(k), shared);
    }
  });
}

}  // namespace gq::cuda

#endif
