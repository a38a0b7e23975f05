// A call on its way into a stream.
#ifndef GQ_GPU_ENQUEUE_CALL_ON_STREAM_H
#define GQ_GPU_ENQUEUE_CALL_ON_STREAM_H

#include <memory>

#include "src/execute/endpoint.h"
#include "src/gpu/enqueue/plan/plan_cache.h"
#include "src/transport/control_message.h"

namespace gq {

struct CallOnStream {
  Call call;
  ControlMessage control;
  /** Where the device writes what it finds, if the host does not wait for the other ranks. */
  Disagreement* disagreement = nullptr;
  CachedPlan* cached = nullptr;          ///< null of a call that this rank refuses
  std::unique_ptr<CachedPlan> new_plan;  ///< the same, if no call of this kind was made before
  bool expected = false;                 ///< all ranks expect this kind of call next
  bool speculative = false;              ///< enqueued before all control messages are compared
  bool captured = false;                 ///< becomes part of a graph
  bool is_fused = false;                 ///< one kernel of each rank may execute it

  const Plan& plan() const { return cached->execution_plan.plan(); }
  bool has_sparse_entries() const {
    return cached != nullptr && plan().schedule->sends_sparse_entries;
  }
  /** True if a norm of this rank is in its control message. */
  bool has_one_norm() const {
    return call.segments == nullptr && has_norm(call.format.levels) && call.format.block == 0;
  }
};

}  // namespace gq

#endif
