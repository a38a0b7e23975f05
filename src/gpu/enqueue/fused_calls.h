// Allreduces by one kernel of each rank: which calls they are, and their kernels' arguments.
#ifndef GQ_GPU_ENQUEUE_FUSED_CALLS_H
#define GQ_GPU_ENQUEUE_FUSED_CALLS_H

#include <vector>

#include "src/gpu/enqueue/call_on_stream.h"
#include "src/gpu/enqueue/step_counter.h"

namespace gq {

class FusedCalls {
 public:
  FusedCalls(StreamGroup* group, const StepCounter* counter) : group_(*group), counter_(*counter) {}

  /** Memory for calls to come. */
  Status reserve();
  /** Before this rank's control message: finds out whether the call is one of these. */
  Status prepare(CallOnStream* call);
  /** After all control messages have come: blocks of each rank's kernel; 0 if stages execute the
   *  call. */
  Status block_count(const CallOnStream& call, uint32_t* block_count);
  /** Enqueues this rank's kernel. Waits on the host until all ranks have done so. */
  Status launch(const CallOnStream& call, uint32_t block_count);
  /** The kernel becomes part of a graph. */
  Status capture(const CallOnStream& call, uint32_t block_count);

 private:
  void list_segments(const Call& call);
  FusedArgs arguments_of(const CallOnStream& call, uint32_t block_count);

  StreamGroup& group_;
  const StepCounter& counter_;
  std::vector<SegmentPlace> segments_;  ///< of the call at hand, if it is a list
};

}  // namespace gq

#endif
