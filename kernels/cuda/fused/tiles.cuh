// How the blocks of all ranks divide the values of a call, so that a block reads what blocks of its
// own number have written.
#ifndef GQ_KERNELS_CUDA_FUSED_TILES_CUH
#define GQ_KERNELS_CUDA_FUSED_TILES_CUH

#include "kernels/cuda/launch/block.cuh"
#include "kernels/fused.h"

namespace gq::cuda {

/** Values of one shard that a block takes at once: its norms, codes and sums. */
struct FusedTile {
  uint32_t owner;        ///< the rank that adds them
  uint64_t first_value;  ///< of the call
  uint64_t value_count;  ///< 0: the shard is shorter than others are
};

/** The tiles of all shards, numbered shard by shard; each shard has as many numbers as the longest
 *  one. On all ranks those of block b are b, b + blocks, b + 2 blocks and so on. */
struct FusedTiles {
  FusedShard shards[kFusedRanksMax];
  uint32_t ranks;
  uint32_t blocks;
  uint32_t values;     ///< of a tile
  uint32_t per_shard;  ///< tiles

  explicit FusedTiles(const FusedArgs& args)
      : ranks(args.ranks),
        blocks(args.block_count),
        values(fused_tile_values(args.coding)),
        per_shard(0) {
    for (uint32_t owner = 0; owner < kFusedRanksMax; ++owner) {
      shards[owner] = owner < ranks ? args.shards[owner] : FusedShard{0, 0};
      const uint64_t count = (shards[owner].value_count + values - 1) / values;
      if (count > per_shard) per_shard = static_cast<uint32_t>(count);
    }
  }

  GQ_DEVICE FusedTile at(uint32_t number) const {
    const uint32_t owner = number / per_shard, in_shard = number % per_shard;
    const FusedShard& shard = shards[owner];
    const uint64_t first = uint64_t{in_shard} * values;
    const uint64_t left = first < shard.value_count ? shard.value_count - first : 0;
    return {owner, shard.first_value + first, left < values ? left : values};
  }

  /** Calls each(tile) with the tiles of a block, from its first one of shard `owner` on. */
  template <typename Each>
  GQ_DEVICE void each(uint32_t block, uint32_t owner, Each each) const {
    const uint32_t end = ranks * per_shard, start = first_from(block, owner * per_shard);
    uint32_t number = start < end ? start : block;
    for (uint32_t next = block; next < end; next += blocks) {
      each(at(number));
      number += blocks;
      if (number >= end) number = block;
    }
  }

  /** The number in its shard of the block's first tile that rank `owner` adds; others are `blocks`
   *  apart. */
  GQ_DEVICE uint32_t first_in_shard(uint32_t block, uint32_t owner) const {
    return first_from(block, owner * per_shard) - owner * per_shard;
  }

 private:
  /** The block's first number that is not below `number`. */
  GQ_DEVICE uint32_t first_from(uint32_t block, uint32_t number) const {
    if (number <= block) return block;
    return block + (number - block + blocks - 1) / blocks * blocks;
  }
};

}  // namespace gq::cuda

#endif
