// Codes of a group as threads make and read them: sixteen lanes of a byte in registers, bit planes
// in memory. A tile's planes are staged in shared memory, so that whole sectors are written.
#ifndef GQ_KERNELS_CUDA_ADAPTIVE_GROUP_CODES_CUH
#define GQ_KERNELS_CUDA_ADAPTIVE_GROUP_CODES_CUH

#include "kernels/codec/planes.h"
#include "kernels/cuda/adaptive/group_stage.cuh"
#include "kernels/cuda/encode.cuh"

namespace gq::cuda {

using LaneWords = uint32_t[kThreadValues / 4];

/** Steps of a block's codes; of one without codes any. */
GQ_DEVICE uint32_t steps_of_width(uint32_t width) { return code_max(max(width, kWidthMin)); }

struct StagedPlanes {
  uint32_t words[kTileBlocks * kWidthMax * kPlaneWords];
};

/** Lanes of values from the call's value `first_value` on; those beyond `count` are 0. */
GQ_DEVICE void encode_lanes(const Rounder& rounder, const Thresholds::Start& start,
                            uint64_t first_value, float norm, uint32_t width, uint32_t count,
                            const float (&value)[kThreadValues], LaneWords& lanes) {
  const LinearLevels<8> levels{steps_of_width(width)};
  rounder.encode(levels, start, first_value / kGroupValues, levels.scale_for_norm(norm), value,
                 lanes);
  if (count == kThreadValues) return;
  GQ_UNROLL for (uint32_t w = 0; w < kThreadValues / 4; ++w) {
    const uint32_t here = count > 4 * w ? count - 4 * w : 0;
    lanes[w] &= here < 4 ? (1u << (8 * here)) - 1 : ~0u;
  }
}

/** A thread's halves of its block's planes; `place` is where plane 0 has the thread's. */
GQ_DEVICE void put_planes(const LaneWords& lanes, uint32_t width, uint16_t* place) {
  uint32_t planes[4];
  planes_of_lanes(lanes, planes);
  GQ_UNROLL for (uint32_t p = 0; p < kWidthMax; ++p) {
    if (p < width) place[p * kPlaneHalves] = static_cast<uint16_t>(planes[p / 2] >> (p % 2 * 16));
  }
}

/** The same read; planes beyond the width are 0. */
GQ_DEVICE void get_planes(const uint16_t* place, uint32_t width, uint32_t (&half)[kWidthMax]) {
  GQ_UNROLL for (uint32_t p = 0; p < kWidthMax; ++p) {
    half[p] = p < width ? place[p * kPlaneHalves] : 0u;
  }
}

/** Halves of planes as lanes. */
GQ_DEVICE void lanes_of_halves(const uint32_t (&half)[kWidthMax], LaneWords& lanes) {
  uint32_t planes[4];
  GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
    planes[k] = byte_permute(half[2 * k], half[2 * k + 1], 0x5410);
  }
  lanes_of_planes(planes, lanes);
}

/** Where a thread's half of plane 0 of its block is, from the first plane of the group on. */
GQ_DEVICE uint32_t half_of_thread(uint32_t first_plane) {
  return first_plane * kPlaneHalves + threadIdx.x % kSharers;
}

/** Shared memory of a stage that makes the words of units. */
struct EncodedUnit {
  GroupWidths::Shared widths;
  StagedPlanes planes;
};

/** Makes the words of a unit tile by tile: lanes_of(block, lanes) is called by the sharers of each
 *  block that has codes, or not if it has none. All threads come here. */
template <typename LanesOf>
GQ_DEVICE void write_unit(const GroupUnit& unit, const GroupWidths& widths, StagedPlanes& staged,
                          uint32_t* words, LanesOf lanes_of) {
  for (uint32_t first = unit.first_block; first < unit.end_block; first += kTileBlocks) {
    const uint32_t block = block_of_thread(first);
    const uint32_t first_plane = widths.first_plane(first);
    if (block < unit.end_block) {
      LaneWords lanes = {};
      lanes_of(block, lanes);
      auto* const halves = reinterpret_cast<uint16_t*>(staged.words);
      put_planes(lanes, widths.width(block),
                 halves + half_of_thread(widths.first_plane(block) - first_plane));
    }
    __syncthreads();
    const uint32_t end = min(first + kTileBlocks, unit.end_block);
    const uint32_t count = (widths.first_plane(end) - first_plane) * kPlaneWords;
    for (uint32_t k = threadIdx.x; k < count; k += kBlockThreads) {
      words[first_plane * kPlaneWords + k] = staged.words[k];
    }
    __syncthreads();  // the next tile is staged there
  }
  if (unit.first_block != 0) return;
  for (uint32_t k = widths.end_plane() * kPlaneWords + threadIdx.x;
       k < widths.plane_count() * kPlaneWords; k += kBlockThreads) {
    words[k] = 0;
  }
}

}  // namespace gq::cuda

#endif
