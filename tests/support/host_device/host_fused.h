// Fused allreduces without a device: a thread of this machine for each rank.
#ifndef GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_FUSED_H
#define GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_FUSED_H

#include "kernels/fused.h"

namespace gq::test {

/** On a stream of the device that tests have. */
const FusedStages& host_fused_stages();

/** Blocks that the device is said to run at once, as it begins. */
inline constexpr uint32_t kFusedBlocks = 48;
void set_fused_blocks_at_once(uint32_t count);
/** Queues that its streams are said to share, as it begins. */
inline constexpr uint32_t kFusedQueues = 32;
void set_fused_queues(uint32_t count);
/** Fused kernels that were enqueued so far, or captured. */
uint32_t fused_kernels_enqueued();
/** Those of this rank never begin; -1: all do. */
void lose_fused_kernels_of(int rank);

}  // namespace gq::test

#endif
