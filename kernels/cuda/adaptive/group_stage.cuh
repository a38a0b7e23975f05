// Stages of adaptive widths on a device: groups of a call as blocks of threads divide them. A
// thread has sixteen values, those of one random counter; eight threads have a block of values.
#ifndef GQ_KERNELS_CUDA_ADAPTIVE_GROUP_STAGE_CUH
#define GQ_KERNELS_CUDA_ADAPTIVE_GROUP_STAGE_CUH

#include "kernels/codec/block_norm.h"
#include "kernels/codec/groups.h"
#include "kernels/cuda/adaptive/group_widths.cuh"
#include "kernels/cuda/launch/values_kernel.cuh"

namespace gq::cuda {

/** Threads that share a block of values. */
inline constexpr uint32_t kSharers = kAdaptiveBlock / kThreadValues;
/** Blocks of values that a block of threads has at once. */
inline constexpr uint32_t kTileBlocks = kBlockThreads / kSharers;
/** Half words of a plane: each sharer has one. */
inline constexpr uint32_t kPlaneHalves = kPlaneWords * 2;
static_assert(kPlaneHalves == kSharers && kWarpThreads % kSharers == 0);

/** Blocks first_block .. end_block - 1 of a group: tiles that a block of threads has one after the
 *  other, so that it finds the widths once. */
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
  Piece piece;

  explicit GroupedRange(const GroupedValues& grouped)
      : groups(grouped.groups),
        segments(grouped.segments),
        segment_count(grouped.segment_count) {}

  GQ_HD void set(const Piece& other) { piece = other; }
  uint32_t group_count() const {
    return static_cast<uint32_t>(divided_up(piece.value_count, groups.group_values));
  }
  /** Values of the call, or of the slice, are below it. */
  GQ_DEVICE uint64_t end() const {
    return groups.interleaved ? groups.value_count : piece.first_value + piece.value_count;
  }

  template <typename Memory>
  GQ_DEVICE GroupBuffer buffer_of(uint64_t value, Memory SegmentPlace::*memory) const {
    if (segments == nullptr) {
      const uint64_t first = groups.interleaved ? 0 : piece.first_value;
      return {piece.values, first, end() - first};
    }
    const SegmentPlace& segment = segments[last_begun(
        segment_count, value, [&](uint32_t k) { return segments[k].first_value; })];
    assume_global(segment.*memory);
    return {segment.*memory, segment.first_value, segment.value_count};
  }
};

/** The stages of adaptive widths; an iteration is a tile. */
struct GroupStage : GroupedRange {
  uint32_t mean_half_bits;
  bool by_value;  ///< norms and scales are numbers, and all of blocks is in the order of values

  GroupStage(const GroupedValues& grouped, uint32_t mean_half_bits, const NormView& norms)
      : GroupedRange(grouped), mean_half_bits(mean_half_bits), by_value(norms.numbers != nullptr) {}

  GQ_HD uint32_t blocks_of_group() const { return groups.group_values / kAdaptiveBlock; }
  GQ_HD uint32_t tiles_of_group() const {
    return static_cast<uint32_t>(divided_up(blocks_of_group(), kTileBlocks));
  }
  uint32_t iterations() const { return group_count() * tiles_of_group(); }

  /** The first iteration that is of another group. */
  GQ_DEVICE uint32_t end_of_group(uint32_t iteration) const {
    return (iteration / tiles_of_group() + 1) * tiles_of_group();
  }
  /** Iterations first .. end - 1, all of one group. */
  GQ_DEVICE GroupUnit unit(uint32_t first, uint32_t end) const {
    const uint32_t tiles = tiles_of_group(), here = first / tiles;
    const uint64_t group = piece.first_value / groups.group_values + here;
    const uint32_t count = groups.value_count_of(group, this->end());
    const auto blocks = static_cast<uint32_t>(adaptive_blocks(count));
    const uint32_t planes = groups.planes_of_group(blocks, mean_half_bits);
    const uint32_t first_block = (first - here * tiles) * kTileBlocks;
    const uint32_t end_block = min((end - here * tiles) * kTileBlocks, blocks);
    return {here, groups.first_value(group), blocks, planes, first_block, end_block};
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
  GQ_DEVICE uint32_t* words_of(const GroupUnit& unit) const {
    return static_cast<uint32_t*>(piece.words) + word_offset(unit);
  }

 private:
  GQ_DEVICE static Place in_buffer(uint64_t offset, uint64_t total, bool warp_has_blocks) {
    const uint32_t count = count_here(offset, total);
    return {offset, count, count, offset, 0, warp_has_blocks && is_full_warp(offset, total)};
  }
};

/** The block of values that a thread shares in a tile, which begins with block `first`. */
GQ_DEVICE uint32_t block_of_thread(uint32_t first) { return first + threadIdx.x / kSharers; }

/** The largest of the sharers of a block: all lanes of the warp that share blocks come here. */
GQ_DEVICE uint32_t largest_of_block(const GroupUnit& unit, uint32_t block, uint32_t own) {
  constexpr uint32_t kBlocks = kWarpThreads / kSharers;
  const uint32_t count = unit.end_block - block / kBlocks * kBlocks;
  const uint32_t lanes = count >= kBlocks ? ~0u : (1u << (count * kSharers)) - 1;
  GQ_UNROLL for (uint32_t distance = 1; distance < kSharers; distance *= 2) {
    own = max(own, __shfl_xor_sync(lanes, own, distance));
  }
  return own;
}

/** A block of threads has iterations that follow each other, as many as any other one. */
template <typename Stage>
__global__ void __launch_bounds__(kBlockThreads, Stage::kBlocksAtOnce)
    groups_kernel(const __grid_constant__ Pieces<Stage> pieces, const Gate gate) {
  __shared__ typename Stage::Shared shared;
  if (!is_open(gate)) return;
  const uint32_t all = pieces.iteration_count, own = (all + gridDim.x - 1) / gridDim.x;
  const uint32_t end = min((blockIdx.x + 1) * own, all);
  for (uint32_t next = blockIdx.x * own; next < end;) {
    const uint32_t number = last_begun(pieces.piece_count, next,
                                       [&](uint32_t k) { return pieces.begin_of(k); });
    const uint32_t first = pieces.begin_of(number), stop = min(end, pieces.end_of(number));
    const Stage stage = pieces.on(number);
    while (next < stop) {
      const uint32_t end_of_unit = min(stop, first + stage.end_of_group(next - first));
      stage.run(stage.unit(next - first, end_of_unit - first), shared);
      next = end_of_unit;
    }
  }
}

/** Calls of a stage that is made of the first one. */
template <typename Stage, typename Args>
StageError run_groups(const Args* args, size_t count, const BatchTable& table,
                      const Gate& gate = {}) {
  const StageCalls<Args> calls{args, count, table};
  return calls.template run<groups_kernel<Stage>>(Launcher(args->stream, gate), Stage(*args), gate);
}

}  // namespace gq::cuda

#endif
