// Executes one call on a stream: the ranks agree, then stages and messages are enqueued, or one
// kernel. What comes before is in plan/call_plans.h.
#ifndef GQ_GPU_ENQUEUE_STREAM_EXECUTOR_H
#define GQ_GPU_ENQUEUE_STREAM_EXECUTOR_H

#include "src/gpu/enqueue/agreement/host_agreement.h"
#include "src/gpu/enqueue/enqueuer.h"
#include "src/gpu/enqueue/fused_calls.h"
#include "src/gpu/enqueue/plan/call_plans.h"
#include "src/gpu/enqueue/stream_sparse_entries.h"

namespace gq {

class StreamExecutor {
 public:
  StreamExecutor(StreamGroup* group, const Scratch* scratch, StreamWorkspace* workspace,
                 const StepCounter* counter)
      : group_(*group),
        scratch_(*scratch),
        workspace_(*workspace),
        counter_(*counter),
        plans_(group, workspace, &batches_),
        agreement_(group, scratch, workspace, counter),
        host_agreement_(&group->endpoint()),
        sparse_(group, scratch, workspace, &agreement_),
        fused_(group, counter),
        side_stream_(group->device()) {}

  /** Streams and events that do not depend on calls. */
  Status open();

  /** Plan and memory of a call, before ranks agree on it. */
  Status prepare(CallOnStream* call);
  /** Enqueues a call that is prepared, or notifies the other ranks that this one refuses it. Waits
   *  on the host for the others' control messages where not all ranks expect this call. */
  Status enqueue(CallOnStream* call, const Status& refusal);
  /** Enqueues a call without a wait: the device alone reads the others' control messages. */
  Status enqueue_speculative(CallOnStream* call);
  /** Allocates workspace for calls of this plan. */
  Status reserve(PlanRequest request);

  FusedCalls& fused() { return fused_; }
  /** What a call that failed has enqueued may still use its plan. */
  void keep_failed(CallOnStream* call) { plans_.keep_failed(call); }
  /** The device may still use all memory: it is never freed. */
  void forget();

 private:
  /** *outcome is what ranks have agreed on; what these return no other rank knows of. */
  Status agree_on_hosts(CallOnStream* call, const Status& refusal, Status* outcome);
  Status agree_on_streams(CallOnStream* call, const Status& refusal, Status* outcome);
  void end_failed(StreamHandle stream) const;
  Status execute_agreed(CallOnStream* call);
  Status execute(CallOnStream* call);
  Status answer_speculative(const Call& call);
  /** A rank that refuses its call takes no norms. */
  Status exchange_controls(const CallOnStream& call, bool takes_norms);
  Status compare(const CallOnStream& call, Disagreement* found);
  CallPlaces places(const CachedPlan& cached);
  SegmentNormPlaces segment_norms(const CachedPlan& cached) const;
  Enqueuer enqueuer_of(const CallOnStream& call);

  StreamGroup& group_;
  const Scratch& scratch_;
  StreamWorkspace& workspace_;
  const StepCounter& counter_;
  Batches batches_;
  CallPlans plans_;
  DeviceAgreement agreement_;
  HostAgreement host_agreement_;
  StreamSparseEntries sparse_;
  FusedCalls fused_;
  SideStream side_stream_;  // after the memory that it may use
};

}  // namespace gq

#endif
