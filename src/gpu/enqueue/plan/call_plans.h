// What a call on a stream needs before ranks agree on it: checks of its arguments, its execution
// plan, workspace, and the addresses of operands on the device.
#ifndef GQ_GPU_ENQUEUE_PLAN_CALL_PLANS_H
#define GQ_GPU_ENQUEUE_PLAN_CALL_PLANS_H

#include <memory>

#include "src/gpu/enqueue/call_on_stream.h"
#include "src/gpu/enqueue/memory/stream_workspace.h"
#include "src/gpu/enqueue/plan/batches.h"

namespace gq {

class CallPlans {
 public:
  CallPlans(StreamGroup* group, StreamWorkspace* workspace, Batches* batches)
      : group_(*group),
        workspace_(*workspace),
        batches_(*batches),
        address_memory_(group->device()) {}

  /** Fills in the control message and the plan. A captured call is UNSUPPORTED unless ranks have
   *  agreed on one of its kind before, with as much workspace. */
  Status prepare(CallOnStream* call);
  /** Allocates memory for calls of this plan. */
  Status reserve(PlanRequest request);

  /** The plan of another rank's call; null if this rank knows of none. */
  CachedPlan* find(const ControlMessage& control) { return cache_.find(Signature::of(control)); }
  /** Ranks have agreed on a call of this plan. */
  void follow(CallOnStream* call) { cache_.follow(call->cached, &call->new_plan); }
  void follow(CachedPlan* plan) { cache_.follow(plan, nullptr); }
  /** Of a call that failed: the stream may still use its plan, if it has one. */
  void keep_failed(CallOnStream* call) { failed_ = std::move(call->new_plan); }

  /** The device may still use all memory: it is never freed. */
  void forget() { address_memory_.forget(); }

 private:
  Pace pace_of(const Plan& plan) const;
  Status find_plan(const Plan& plan, CallOnStream* call);
  Status write_addresses(const CallOnStream& call);
  Status reserve_floats(PlanRequest request);
  Status take_tables(const CallOnStream& call);

  StreamGroup& group_;
  StreamWorkspace& workspace_;
  Batches& batches_;
  AddressMemory address_memory_;  // before the members that use memory of it
  PlanCache cache_;
  std::unique_ptr<CachedPlan> failed_;
};

}  // namespace gq

#endif
