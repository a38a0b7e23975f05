// Calls that become part of a graph: the device counts their steps, and it alone reads control
// messages, at each replay.
#ifndef GQ_GPU_ENQUEUE_GRAPH_CAPTURE_H
#define GQ_GPU_ENQUEUE_GRAPH_CAPTURE_H

#include "src/gpu/enqueue/stream_executor.h"

namespace gq {

class GraphCapture {
 public:
  GraphCapture(StreamGroup* group, StreamWorkspace* workspace, StepCounter* counter,
               StreamExecutor* executor)
      : group_(*group), workspace_(*workspace), counter_(*counter), executor_(*executor) {}

  /** No control message is sent and nothing is counted yet: a graph may never be replayed. */
  Status capture(CallOnStream* call, const Status& refusal);
  /** UNSUPPORTED for a request whose stream is being captured. */
  Status check_request(const Call& call) const;

 private:
  Status capture_fused(CallOnStream* call);

  StreamGroup& group_;
  StreamWorkspace& workspace_;
  StepCounter& counter_;
  StreamExecutor& executor_;
};

}  // namespace gq

#endif
