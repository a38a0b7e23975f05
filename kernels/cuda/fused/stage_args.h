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

inline NormArgs norm_args(const FusedArgs& args) {
  NormArgs made{};
  made.q = NormOrder::inf;
  made.block = args.coding.block;
  made.range = {0, static_cast<size_t>(args.value_count)};
  made.values = args.send;
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
  made.values = args.send;
  made.dtype = args.dtype;
  made.norms = fused_norms(args, buffers.merged);
  made.words = buffers.words;
  return made;
}

/** Sums take the place of the own codes that they were made of. */
inline ReduceManyArgs reduce_many_args(const FusedArgs& args) {
  FusedBuffers& buffers = *args.buffers[args.random.rank];
  const FusedShard& own = args.shards[args.random.rank];
  const uint32_t block = args.coding.block;
  const uint64_t first_block = block > 0 ? own.first_value / block : 0;
  ReduceManyArgs made{};
  made.coding = args.coding;
  made.random = args.random;
  made.random.hop = 1;
  made.range = {own.first_value, static_cast<size_t>(own.value_count)};
  made.words = buffers.control.operands;
  made.norms = fused_norms(args, buffers.merged + first_block);
  made.out_words = buffers.words + own.first_value / codes_per_word(args.coding.bits);
  if (args.coding.rescale) made.out_scales = buffers.scales + first_block;
  return made;
}

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
  made.values = args.recv;
  return made;
}

}  // namespace gq::cuda

#endif
