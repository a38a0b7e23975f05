// The stages that a fused allreduce is made of, as their arguments: on one rank's own buffers.
#ifndef GQ_KERNELS_CUDA_FUSED_STAGE_ARGS_H
#define GQ_KERNELS_CUDA_FUSED_STAGE_ARGS_H

#include "kernels/fused.h"
#include "kernels/stages.h"

namespace gq::cuda {

/** One norm is one that the kernel finds: this one is never read. */
inline NormView fused_norms(const FusedArgs& args, const uint16_t* blocks) {
  if (args.coding.block > 0) return {nullptr, blocks};
  return {reinterpret_cast<const float*>(args.buffers[args.random.rank])};
}

/** Values are those of segments. */
inline NormArgs norm_args(const FusedArgs& args) {
  NormArgs made{};
  made.q = NormOrder::inf;
  made.block = args.coding.block;
  made.range = {0, static_cast<size_t>(args.value_count)};
  made.dtype = args.dtype;
  made.out = args.buffers[args.random.rank]->norms;
  return made;
}

inline QuantizeArgs quantize_args(const FusedArgs& args) {
  FusedBuffers& buffers = *args.buffers[args.random.rank];
  QuantizeArgs made{};
  made.coding = args.coding;
  made.random = args.random;
  made.range = {0, static_cast<size_t>(args.value_count)};
  made.dtype = args.dtype;
  made.norms = fused_norms(args, buffers.merged);
  made.words = buffers.words;
  return made;
}

/** Sums take the place of the own codes that they were made of. */
struct FusedSums {
  const uint32_t* operands[kFusedRanksMax];
  ReduceManyArgs args{};

  explicit FusedSums(const FusedArgs& fused) {
    FusedBuffers& buffers = *fused.buffers[fused.random.rank];
    const FusedShard& own = fused.shards[fused.random.rank];
    const uint32_t block = fused.coding.block;
    const uint64_t first_block = block > 0 ? own.first_value / block : 0;
    const uint64_t first_word = own.first_value / codes_per_word(fused.coding.bits);
    for (uint32_t rank = 0; rank < kFusedRanksMax; ++rank) {
      operands[rank] = rank < fused.ranks ? fused.buffers[rank]->words + first_word : nullptr;
    }
    args.coding = fused.coding;
    args.random = fused.random;
    args.random.hop = 1;
    args.range = {own.first_value, static_cast<size_t>(own.value_count)};
    args.operands = operands;
    args.norms = fused_norms(fused, buffers.merged + first_block);
    args.out_words = buffers.words + first_word;
    if (fused.coding.rescale) args.out_scales = buffers.scales + first_block;
  }
  FusedSums(const FusedSums&) = delete;
  FusedSums& operator=(const FusedSums&) = delete;
};

inline DequantizeArgs dequantize_args(const FusedArgs& args) {
  FusedBuffers& buffers = *args.buffers[args.random.rank];
  DequantizeArgs made{};
  made.coding = args.coding;
  made.random = args.random;
  made.range = {0, static_cast<size_t>(args.value_count)};
  made.words = buffers.words;
  made.scales = fused_norms(args, buffers.scales);
  made.dtype = args.dtype;
  made.op = args.op;
  return made;
}

}  // namespace gq::cuda

#endif
