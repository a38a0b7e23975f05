// Norms of the blocks of groups, in the order of groups.
#ifndef GQ_KERNELS_CUDA_ADAPTIVE_GROUP_NORMS_CUH
#define GQ_KERNELS_CUDA_ADAPTIVE_GROUP_NORMS_CUH

#include "kernels/cuda/adaptive/group_stage.cuh"
#include "kernels/cuda/block_norms.cuh"

namespace gq::cuda {

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

struct GroupNorms : GroupStage {
  static constexpr uint32_t kBlocksAtOnce = 2;  // 80 registers are a few too few
  struct Shared {};
  ValueSource source;
  uint16_t* out = nullptr;

  GroupNorms(const NormArgs& args, uint64_t values_in_all)
      : GroupStage(*args.range.grouped, 0, {}, values_in_all), source(args.values, args.dtype) {}

  GQ_HD void set(const Piece& piece) {
    GroupStage::set(piece);
    out = static_cast<uint16_t*>(piece.words);
  }

  GQ_DEVICE void run(const GroupUnit& unit, Shared&) const {
    for (uint32_t first = unit.first_block; first < unit.end_block; first += kTileBlocks) {
      const uint32_t block = block_of_thread(first);
      if (block >= unit.end_block) continue;
      const ThreadPlace place = place_of(unit, block, &SegmentPlace::send);
      ValueSource from = source;
      from.set(place.values);
      float value[kThreadValues];
      from.load(place.in_buffer, value);
      uint32_t own = 0;
      keep_largest_of(value, own);
      const uint32_t largest = largest_of_block(unit, block, own);
      if (threadIdx.x % kSharers == 0) out[block_offset(unit, block)] = norm_code(largest);
    }
  }
};

}  // namespace gq::cuda

#endif
