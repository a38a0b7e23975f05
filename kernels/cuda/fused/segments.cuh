// Where the tensors of a call are.
#ifndef GQ_KERNELS_CUDA_FUSED_SEGMENTS_CUH
#define GQ_KERNELS_CUDA_FUSED_SEGMENTS_CUH

#include "kernels/cuda/launch/block.cuh"
#include "kernels/fused.h"

namespace gq::cuda {

/** Sorted by their first values, which are multiples of value_alignment(). What lies between two of
 *  them belongs to neither. */
struct FusedSegments {
  const SegmentPlace* table;  ///< null: they are here
  uint32_t count;
  SegmentPlace argument[kFusedArgumentSegments];

  explicit FusedSegments(const FusedArgs& args)
      : table(args.segment_count > kFusedArgumentSegments
                  ? args.buffers[args.random.rank]->segments
                  : nullptr),
        count(args.segment_count) {
    for (uint32_t k = 0; k < kFusedArgumentSegments; ++k) argument[k] = args.segments[k];
  }

  GQ_DEVICE SegmentPlace at(uint32_t number) const {
    return table != nullptr ? table[number] : argument[number];
  }
  GQ_DEVICE uint64_t first_of(uint32_t number) const {
    return table != nullptr ? table[number].first_value : argument[number].first_value;
  }

  /** The last one that begins with this value or before it. */
  GQ_DEVICE uint32_t find(uint64_t value) const {
    return last_begun(count, value, [&](uint32_t k) { return first_of(k); });
  }
};

}  // namespace gq::cuda

#endif
