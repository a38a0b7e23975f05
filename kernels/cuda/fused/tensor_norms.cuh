// Norms of the tensors of a list: each rank's largest magnitudes, which peers read.
#ifndef GQ_KERNELS_CUDA_FUSED_TENSOR_NORMS_CUH
#define GQ_KERNELS_CUDA_FUSED_TENSOR_NORMS_CUH

#include "kernels/cuda/fused/grid_barrier.cuh"

namespace gq::cuda {

/** Blocks raise words that are 0 before a call. Calls use two copies of them in turn: a peer may
 *  read those of the last call until its next kernel begins, and at a call's barriers that has
 *  begun. */
struct TensorNorms {
  uint32_t count;  ///< 0: the call has one norm, those of blocks, or none

  explicit TensorNorms(const FusedArgs& args)
      : count(has_tensor_norms(args) ? args.segment_count : 0) {}

  /** By one block of the rank, before the first barrier. */
  GQ_DEVICE void begin(const GridBarrier& barrier, uint32_t call) const {
    barrier.control().norm_count[call % 2] = count;
  }

  /** Before the barrier for norms. */
  GQ_DEVICE void raise(const GridBarrier& barrier, uint32_t call, uint32_t tensor,
                       uint32_t magnitude) const {
    cuda::raise(&barrier.control().tensor_norms[call % 2][tensor], magnitude);
  }

  /** Behind it: the largest of all ranks. */
  GQ_DEVICE float norm_of(const GridBarrier& barrier, uint32_t call, uint32_t tensor) const {
    uint32_t largest = 0;
    for (uint32_t peer = 0; peer < barrier.ranks; ++peer) {
      const uint32_t norm = barrier.buffers[peer]->control.tensor_norms[call % 2][tensor];
      largest = norm > largest ? norm : largest;
    }
    return float_from_bits(largest);
  }

  /** Behind any barrier, by all blocks: the next call finds words that are 0. */
  GQ_DEVICE void clear_last(const GridBarrier& barrier, uint32_t call) const {
    FusedControl& control = barrier.control();
    const uint32_t copy = (call + 1) % 2;
    const uint32_t used = control.norm_count[copy], stride = barrier.block_count * kBlockThreads;
    for (uint32_t k = blockIdx.x * kBlockThreads + threadIdx.x; k < used; k += stride) {
      control.tensor_norms[copy][k] = 0;
    }
  }

 private:
  static bool has_tensor_norms(const FusedArgs& args) {
    return has_norm(args.coding.levels) && args.coding.block == 0 && args.segment_count > 1;
  }
};

}  // namespace gq::cuda

#endif
