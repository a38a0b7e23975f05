// Stages of Rice codes on a device: a block of threads has a whole group, a warp a cell, a lane a
// value.
#ifndef GQ_KERNELS_CUDA_RICE_RICE_STAGE_CUH
#define GQ_KERNELS_CUDA_RICE_RICE_STAGE_CUH

#include "kernels/codec/rice.h"
#include "kernels/cuda/adaptive/group_stage.cuh"

namespace gq::cuda {

static_assert(kRiceCell == kWarpThreads, "a lane for each value of a cell");

inline constexpr uint32_t kAllLanes = 0xffffffffu;
inline constexpr uint32_t kBlockWarps = kBlockThreads / kWarpThreads;
/** Cells that a warp has one after the other: half a granule, so that each lane draws the random
 *  words of sixteen values. */
inline constexpr uint32_t kRunCells = 16;
inline constexpr uint32_t kTileCells = kBlockWarps * kRunCells;
static_assert(kGranuleValues % (kRunCells * kRiceCell) == 0);
static_assert(kRunCells * kRiceCell == kWarpThreads * kGroupValues);

GQ_DEVICE uint32_t lane_here() { return threadIdx.x % kWarpThreads; }
GQ_DEVICE uint32_t warp_here() { return threadIdx.x / kWarpThreads; }

struct RiceGroup {
  uint32_t number;  ///< in the piece
  uint64_t first_value, stride_values;  ///< in the call; of granules
  uint32_t value_count, cells;

  /** The first value of a cell in the call. */
  GQ_DEVICE uint64_t value_of(uint32_t cell) const {
    const uint32_t place = cell * kRiceCell;
    return first_value + place / kGranuleValues * stride_values + place % kGranuleValues;
  }
  GQ_DEVICE bool has_lane(uint32_t cell) const {
    return cell * kRiceCell + lane_here() < value_count;
  }
};

struct RiceWords {
  uint32_t* words;
  uint32_t word_count, head_words;

  /** Where a word of 32 bits of the string of unary codes is. */
  GQ_DEVICE uint32_t unary_word(uint32_t number) const {
    return word_count - 2 - 2 * (number / 2) + number % 2;
  }
};

/** The lane's value of a cell in the caller's memory. */
struct LaneValue {
  const void* buffer;
  uint64_t offset;
  bool is_there;
};

struct RiceStage : GroupedRange {
  static constexpr uint32_t kBlocksAtOnce = 2;
  using GroupedRange::GroupedRange;

  uint32_t iterations() const { return group_count(); }

  GQ_DEVICE uint32_t end_of_group(uint32_t iteration) const { return iteration + 1; }
  GQ_DEVICE RiceGroup unit(uint32_t iteration, uint32_t) const {
    const uint64_t group = piece.first_value / groups.group_values + iteration;
    const uint32_t count = groups.value_count_of(group, piece.first_value + piece.value_count);
    return {iteration, groups.first_value(group), groups.stride_values(), count,
            rice_cells(count)};
  }

  /** The last group of a slice has fewer planes if it is shorter. */
  GQ_DEVICE RiceWords words_of(const RiceGroup& group, const Packing& packing,
                               const void* words) const {
    const bool is_whole = groups.interleaved || group.value_count == groups.group_values;
    const uint32_t planes = is_whole
                                ? packing.group_planes
                                : static_cast<uint32_t>(planes_of(packing, group.value_count));
    auto* const first = static_cast<uint32_t*>(const_cast<void*>(words));
    return {first + uint64_t{group.number} * packing.group_planes * kPlaneWords,
            planes * kPlaneWords, rice_head_words(group.cells)};
  }

  /** Tensors begin with cells. */
  template <typename Memory>
  GQ_DEVICE LaneValue lane_value(const RiceGroup& group, uint32_t cell,
                                 Memory SegmentPlace::*memory) const {
    const uint64_t value = group.value_of(cell);
    const GroupBuffer buffer = buffer_of(value, memory);
    const uint64_t offset = value - buffer.first_value + lane_here();
    return {buffer.values, offset, group.has_lane(cell) && offset < buffer.value_count};
  }
};

/** Random words of a run of cells, of one draw. */
struct RunWords {
  uint32_t word[kWarpThreads * kGroupValues / kWordValues];

  /** All lanes come here, and meet before they read. first_value: of the run, in the call. */
  GQ_DEVICE void draw(const KeyedStream& stream, const StreamStart& start, uint64_t first_value) {
    const PhiloxBlock block =
        random_group(stream, start, first_value / kGroupValues + lane_here());
    GQ_UNROLL for (uint32_t w = 0; w < 4; ++w) word[4 * lane_here() + w] = block.word[w];
  }
  /** R(e) of the lane's value of a cell of the run. */
  GQ_DEVICE uint32_t bits(uint32_t cell_of_run) const {
    return value_bits(word[(cell_of_run * kRiceCell + lane_here()) / kWordValues], lane_here());
  }
};

}  // namespace gq::cuda

#endif
