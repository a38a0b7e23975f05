// The kernel of one rank of a fused allreduce without a device: a thread of this machine for each
// block, whose own threads run one at a time.
#ifndef GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_FUSED_H
#define GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_FUSED_H

#include <functional>

#include "kernels/fused.h"

namespace gq::test {

/** What a block does before its stages, which are 0 (norms) to 3 (values); may be null. */
using Delay = std::function<void(uint32_t block, uint32_t stage)>;

/** Returns when all blocks have ended. */
void run_fused_on_threads(const FusedArgs& args, const Delay& delay = nullptr);

/** The same on a stream of the device that tests have. */
const FusedStages& host_fused_stages();

/** Blocks that the device runs at once, as it begins: threads of the host. */
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
