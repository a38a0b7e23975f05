// The orders of agreement and execution: the device compares while the call is executed, or the
// host waits for the outcome first.
#include "src/gpu/enqueue/stream_executor.h"

#include <inttypes.h>

#include "src/gpu/device/time_range.h"

namespace gq {

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
  const bool on_hosts = group_.transport().agrees_on_host();
  Status outcome;
  const Status status = on_hosts ? agree_on_hosts(call, refusal, &outcome)
                                 : agree_on_streams(call, refusal, &outcome);
  // The others continue, or have continued, where this rank does not.
  const Status ended = status.ok() ? group_.break_on(outcome) : group_.break_with(status);
  if (!ended.ok()) end_failed(call->call.stream);
  return ended;
}

/** What a failed call has enqueued, addresses of operands at least, uses memory and may wait for
 *  other ranks. It comes after the call before, as any does. */
void StreamExecutor::end_failed(StreamHandle stream) const {
  if (group_.follow_last_call(stream).ok()) (void)group_.end_call(stream).ok();
}

Status StreamExecutor::agree_on_streams(CallOnStream* call, const Status& refusal,
                                        Status* outcome) {
  // A rank that may replay a graph has to see what the others do outside of theirs. Sparse entries
  // wait for counts: no rank can answer one that has continued to these alone.
  const bool alone = call->expected && refusal.ok() && !workspace_.is_in_graphs();
  if (alone && !call->has_sparse_entries()) return enqueue_speculative(call);
  GQ_TRY(exchange_controls(*call, refusal.ok()));
  if (refusal.ok()) GQ_TRY(compare(*call, scratch_.seen_disagreement()));
  GQ_TRY(agreement_.read_outcome(*call, refusal, outcome));
  return outcome->ok() ? execute(call) : answer_speculative(call->call);
}

Status StreamExecutor::enqueue_speculative(CallOnStream* call) {
  call->speculative = true;
  GQ_TRY(exchange_controls(*call, true));
  GQ_TRY(compare(*call, call->disagreement));
  return execute(call);
}

Status StreamExecutor::exchange_controls(const CallOnStream& call, bool takes_norms) {
  const TimeRange range("gqsgd.headers");
  const bool norms_follow = takes_norms && segment_norms(*call.cached).with_control;
  const size_t norm_count = norms_follow ? call.call.segments->parts.size() : 0;
  GQ_TRY(agreement_.begin(call, takes_norms && call.has_one_norm(), norm_count));
  if (norms_follow) GQ_TRY(enqueuer_of(call).take_segment_norms());
  return agreement_.gather(call);
}

Status StreamExecutor::compare(const CallOnStream& call, Disagreement* found) {
  const bool merges = segment_norms(*call.cached).with_control;
  return agreement_.compare(
      call.call, found, merges ? enqueuer_of(call).merged_segment_norms() : MergeRankNormsArgs());
}

Status StreamExecutor::agree_on_hosts(CallOnStream* call, const Status& refusal,
                                      Status* outcome) {
  GQ_TRY(host_agreement_.exchange(*call, refusal, outcome));
  if (outcome->ok()) return execute_agreed(call);
  counter_.enqueue_refused(call->call);
  return Status();
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
    GQ_TRY(exchange_controls(*call, true));
    GQ_TRY(compare(*call, call->disagreement));
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
Status StreamExecutor::answer_speculative(const Call& call) {
  const Endpoint& endpoint = group_.endpoint();
  CachedPlan* answered = nullptr;
  bool follows = false;
  for (uint32_t rank = 0; rank < endpoint.size(); ++rank) {
    const ControlMessage& control = scratch_.controls().seen(rank);
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
                          places(*answered));
  GQ_TRY(enqueuer.messages());
  GQ_TRY(group_.end_call(call.stream));
  if (follows) plans_.follow(answered);
  return Status();
}

CallPlaces StreamExecutor::places(const CachedPlan& cached) {
  return {workspace_.arena(), &side_stream_, workspace_.norm_sums(cached.execution_plan.plan()),
          scratch_.norm(), {scratch_.gate(), group_.transport().broken_word()},
          &batches_, segment_norms(cached)};
}

/** Behind the control messages, where all of them fit there. */
SegmentNormPlaces StreamExecutor::segment_norms(const CachedPlan& cached) const {
  if (!has_segment_norms(cached.execution_plan)) return {};
  const auto behind = [](uint32_t* control) {
    return reinterpret_cast<unsigned char*>(control + kControlWordCount);
  };
  const ControlPlaces controls = scratch_.controls();
  if (cached.execution_plan.segments()->size() <= controls.norms_max()) {
    return {behind(controls.own), behind(controls.all), controls.stride_bytes, true};
  }
  const Layout& layout = cached.execution_plan.plan().layout;
  unsigned char* const own = workspace_.arena() + layout.segment_norms_bytes();
  return {own, own + layout.segment_norms_stride_bytes(), layout.segment_norms_stride_bytes(),
          false};
}

Enqueuer StreamExecutor::enqueuer_of(const CallOnStream& call) {
  return {group_.endpoint(), group_.transport(), call.call, *call.cached, places(*call.cached)};
}

void StreamExecutor::forget() {
  side_stream_.forget();
  plans_.forget();
}

}  // namespace gq
