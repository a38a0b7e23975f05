// The orders of agreement and execution: the device compares while the call is executed, or the
// host waits for the outcome first.
#include "src/gpu/enqueue/stream_executor.h"

#include <inttypes.h>

#include "src/gpu/device/time_range.h"

namespace gq {

namespace {

SegmentNormPlaces norms_in(const CachedPlan& cached) {
  return cached.execution_plan.plan().layout.segment_norms(sizeof(ControlMessage));
}

}  // namespace

Status StreamExecutor::open() {
  if (group_.overlaps()) GQ_TRY(side_stream_.open());
  return agreement_.open();
}

Status StreamExecutor::prepare(CallOnStream* call) {
  const TimeRange range("gqsgd.prepare");
  GQ_TRY(plans_.prepare(call));
  GQ_TRY(sparse_.reserve(call->plan()));
  return fused_.prepare(call);
}

Status StreamExecutor::reserve(PlanRequest request) {
  GQ_TRY(fused_.reserve());
  return plans_.reserve(request);
}

Status StreamExecutor::enqueue(CallOnStream* call, const Status& refusal) {
  if (group_.transport().agrees_on_host()) return enqueue_after_host_agreement(call, refusal);
  // A rank that may replay a graph has to see what the others do outside of theirs. Sparse entries
  // wait for counts: no rank can answer one that has continued to these alone.
  const bool alone = call->expected && refusal.ok() && !workspace_.is_in_graphs();
  if (alone && !call->has_sparse_entries()) return enqueue_speculative(call);
  const bool takes_norm = refusal.ok() && call->has_one_norm();
  const CachedPlan* const expected = expected_with_norms(*call);
  if (expected == nullptr) {
    GQ_TRY(agreement_.exchange(*call, takes_norm, nullptr));
  } else {
    const SegmentNormPlaces norms = norms_in(*expected);
    GQ_TRY(agreement_.exchange(*call, takes_norm, &norms));
  }
  if (refusal.ok()) GQ_TRY(agreement_.compare(call->call, scratch_.seen_disagreement()));
  Status outcome;
  GQ_TRY(agreement_.read_outcome(*call, refusal, &outcome));
  if (outcome.ok()) return execute(call);
  GQ_TRY(answer_speculative(call->call, expected != nullptr));
  return outcome;
}

Status StreamExecutor::enqueue_speculative(CallOnStream* call) {
  call->speculative = true;
  call->norms_with_control = expected_with_norms(*call) != nullptr;
  if (!call->norms_with_control) {
    GQ_TRY(agreement_.exchange(*call, call->has_one_norm(), nullptr));
    GQ_TRY(agreement_.compare(call->call, call->disagreement));
    return execute(call);
  }
  const Enqueuer enqueuer = enqueuer_of(*call);
  GQ_TRY(agreement_.begin_with_norms(*call, norms_in(*call->cached)));
  GQ_TRY(enqueuer.take_segment_norms());
  GQ_TRY(agreement_.gather_with_norms(*call));
  GQ_TRY(agreement_.compare(call->call, call->disagreement, enqueuer.merged_segment_norms()));
  return execute(call);
}

Status StreamExecutor::enqueue_after_host_agreement(CallOnStream* call, const Status& refusal) {
  Status outcome;
  Status status = host_agreement_.exchange(*call, refusal, &outcome);
  if (status.ok() && !outcome.ok()) {
    counter_.enqueue_refused(call->call);
    return outcome;
  }
  if (status.ok()) status = execute_agreed(call);
  if (status.ok()) return status;
  // The others continue, or have continued: a failure from here on is not shared.
  Endpoint& endpoint = group_.endpoint();
  endpoint.failure.keep(status);
  group_.transport().abort_group(status.code(), endpoint.rank());
  (void)group_.end_call(call->call.stream).ok();
  return endpoint.failure.get();
}

/** Norms are gathered on the device, each in its rank's control message, and merged there; steps
 *  that no host knows are compared. */
Status StreamExecutor::execute_agreed(CallOnStream* call) {
  const Call& own = call->call;
  if (own.value_count > 0) GQ_TRY(group_.transport().begin_call());
  uint32_t block_count = 0;
  GQ_TRY(fused_.block_count(*call, &block_count));
  if (block_count > 0) {
    GQ_TRY(fused_.launch(*call, block_count));
    GQ_TRY(group_.end_call(own.stream));
    plans_.follow(call);
    return Status();
  }
  if (call->has_one_norm() || own.step_at != nullptr) {
    GQ_TRY(agreement_.exchange(*call, call->has_one_norm(), nullptr));
    GQ_TRY(agreement_.compare(own, call->disagreement));
    return execute(call);
  }
  GQ_TRY(group_.follow_last_call(own.stream));
  GQ_TRY(group_.device().clear(scratch_.gate(), sizeof *scratch_.gate(), own.stream));
  return execute(call);
}

Status StreamExecutor::execute(CallOnStream* call) {
  const TimeRange range("gqsgd.fill");
  const Enqueuer enqueuer = enqueuer_of(*call);
  const bool encoded = call->has_sparse_entries();
  bool sparse = false;
  if (encoded) GQ_TRY(sparse_.encode(*call, &sparse));
  GQ_TRY(sparse ? sparse_.exchange(*call) : enqueuer.moves(encoded));
  GQ_TRY(sparse ? sparse_.add(*call) : enqueuer.results());
  GQ_TRY(group_.end_call(call->call.stream, call->captured));
  if (call->captured) return Status();
  if (call->plan().schedule->adds_natively && call->call.format.levels == Levels::none) {
    group_.endpoint().native_float_calls += 1;
  }
  plans_.follow(call);
  return Status();
}

/** Ranks that made the call which was expected, or replay a graph, have continued without waiting:
 *  this rank answers their messages and ignores the contents. */
Status StreamExecutor::answer_speculative(const Call& call, bool norms_with_control) {
  const Endpoint& endpoint = group_.endpoint();
  CachedPlan* answered = nullptr;
  bool follows = false;
  for (uint32_t rank = 0; rank < endpoint.size(); ++rank) {
    const ControlMessage& control = scratch_.pinned_controls()[rank];
    if ((control.words[kControlSequence] & kControlSpeculative) == 0) continue;
    CachedPlan* const theirs = plans_.find(control);
    if (theirs == nullptr || (answered != nullptr && answered != theirs)) {
      return fail(GQSGD_PROTOCOL,
                  "call %" PRIu64
                  ": rank %u went on with a call that rank %u cannot answer: ranks replay graphs "
                  "of different calls",
                  endpoint.sequence, rank, endpoint.rank());
    }
    answered = theirs;
    follows |= (control.words[kControlSequence] & kControlInGraph) == 0;
  }
  if (answered == nullptr) return Status();
  const Enqueuer enqueuer(endpoint, group_.transport(), call, *answered,
                          places(*answered, norms_with_control));
  GQ_TRY(enqueuer.messages());
  GQ_TRY(group_.end_call(call.stream));
  if (follows) plans_.follow(answered);
  return Status();
}

CallPlaces StreamExecutor::places(const CachedPlan& cached, bool norms_with_control) {
  return {workspace_.arena(), &side_stream_, workspace_.norm_sums(cached.execution_plan.plan()),
          scratch_.norm(), {scratch_.gate(), group_.transport().broken_word()},
          &batches_, norms_with_control};
}

Enqueuer StreamExecutor::enqueuer_of(const CallOnStream& call) {
  return {group_.endpoint(), group_.transport(), call.call, *call.cached,
          places(*call.cached, call.norms_with_control)};
}

/** The call that all ranks expect, if norms of its segments travel with the control messages: with
 *  those of ranks that make another call as well, since all send as much. Graphs have messages that
 *  do not depend on what is expected when they are replayed. */
const CachedPlan* StreamExecutor::expected_with_norms(const CallOnStream& call) {
  if (call.captured || workspace_.is_in_graphs()) return nullptr;
  const CachedPlan* const expected = plans_.expected();
  const bool has_norms = expected != nullptr && has_segment_norms(expected->execution_plan);
  return has_norms ? expected : nullptr;
}

void StreamExecutor::forget() {
  side_stream_.forget();
  plans_.forget();
}

}  // namespace gq
