// The paper on one screen: norm -> agree on the global norm -> quantize, reduce along the schedule,
// dequantize (the executor's moves).
#include "src/call/allreduce.h"

#include <inttypes.h>

#include <new>
#include <utility>

#include "kernels/checksum/digest.h"
#include "src/call/auto_schedule.h"
#include "src/call/virtual/short_calls.h"
#include "src/execute/messages.h"
#include "src/execute/split_stages.h"
#include "src/transport/culprit.h"

namespace gq {
namespace {

PlanRequest request_of(const Endpoint& endpoint, const Call& call) {
  PlanRequest request{
      &call.format,     call.schedule_id,           endpoint.size(),
      call.value_count, endpoint.chunk_value_count, endpoint.host->reads_in_place()};
  request.has_room = endpoint.messages.wants_room();
  request.operation = call.operation;
  request.rank = endpoint.rank();
  request.nodes = &endpoint.nodes;
  if (call.segments != nullptr) {
    request.segments = call.segments->parts.data();
    request.segment_count = call.segments->parts.size();
  }
  return request;
}

/** Whether all values are finite of which a stage gave this norm (not yet in its wire form). */
bool is_finite(const NormWords& norm, NormOrder q) {
  if (q == NormOrder::inf) return norm.low < kFloatInfinityBits;
  return ((norm.high >> 20) & 0x7ff) != 0x7ff;  // the exponent of a double
}

}  // namespace

Status Allreduce::begin(Endpoint& endpoint, const Call& call, Status own) {
  if (endpoint_ != nullptr) forget_last_call();
  endpoint_ = &endpoint;
  call_ = call;
  own_ = own;
  if (call.operation != Operation::measure_costs) endpoint.calls += 1;
  const bool is_one_array = call.operation == Operation::allreduce && call.segments == nullptr;
  endpoint.newest_result_bytes =
      is_one_array ? call.value_count * dtype_size_bytes(call.dtype) : 0;
  endpoint.newest_dtype = call.dtype;
  return own_.ok() && has_to_measure() ? begin_measuring() : begin_agreement();
}

/** What an operation is made with; a blocking call has one of its own. */
void Allreduce::forget_last_call() {
  plan_ = Plan();  // make_plan() sets what a plan of its kind has, and nothing back
  phase_ = Phase::agree;
  events_ = 0;
  is_short_ = false;
  nonfinite_ = NonfiniteSite();
  segment_norms_ = SegmentNorms();
  sparse_entries_ = SparseEntries();
  executor_ = Executor();
  measuring_.reset();
}

/** Constants are measured when a call first needs them, or in a call of their own. */
bool Allreduce::has_to_measure() const {
  if (!endpoint_->choice.needs_measuring()) return false;
  if (call_.operation == Operation::measure_costs) return true;
  return call_.schedule_id == GQSGD_SCHEDULE_AUTO && !has_one_schedule(call_.operation);
}

/** Without memory for it the call is refused as for any other reason. */
Status Allreduce::begin_measuring() {
  endpoint_->newest_ended.is_kept = false;  // measurements use the arena
  measuring_.reset(new (std::nothrow) Measuring);
  if (!measuring_) {
    own_ = fail(GQSGD_NO_MEMORY, "no memory to measure the constants of the cost model");
    return begin_agreement();
  }
  phase_ = Phase::measure;
  plan_ = Plan();  // a call that only measures has none
  return measuring_->begin(*endpoint_);
}

Status Allreduce::measure(bool* done) {
  GQ_TRY(measuring_->advance(done));
  if (!*done) return Status();
  endpoint_->choice.set_measured(measuring_->costs());
  const bool was_all = call_.operation == Operation::measure_costs;
  phase_ = was_all ? Phase::done : Phase::agree;
  return was_all ? Status() : begin_agreement();
}

Status Allreduce::begin_agreement() {
  Endpoint& endpoint = *endpoint_;
  endpoint.sequence += 1;
  sequence_ = endpoint.sequence;
  endpoint.messages.begin_call(endpoint.sequence, operation_name(call_));
  NormWords norm;
  if (own_.ok()) own_ = resolve_auto(endpoint, &call_);
  if (own_.ok()) own_ = make_plan(request_of(endpoint, call_), &plan_);
  if (own_.ok()) own_ = check_sums();
  if (own_.ok()) own_ = take_norm(&norm);
  if (own_.ok()) own_ = prepare_short_call();
  agreement_.begin(call_);
  const ControlMessage control =
      own_.ok() ? Agreement::control_of(endpoint, call_, plan_.schedule_id, norm)
                : Agreement::refusal_of(endpoint, call_, own_.code(), nonfinite_);
  return endpoint.host->send_control(endpoint.sequence, control);
}

/** Values of a short call leave with the control message. */
Status Allreduce::prepare_short_call() {
  is_short_ = ShortCalls::takes(*endpoint_, call_, plan_);
  if (!is_short_) return Status();
  try {
    if (!endpoint_->short_calls) {
      auto made = std::make_shared<ShortCalls>();
      GQ_TRY(made->open(*endpoint_));
      endpoint_->short_calls = std::move(made);
    }
    endpoint_->short_calls->enclose(*endpoint_, call_);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for the values of %u ranks", endpoint_->size());
  }
  return Status();
}

/** A transport adds by itself, or it does not. */
Status Allreduce::check_sums() {
  if (!plan_.schedule->adds_natively || endpoint_->host->sums() != nullptr) return Status();
  return fail(GQSGD_UNSUPPORTED,
              "schedule %s is the transport's own allreduce, which this group's transport does not "
              "have: MPI has one, NCCL, and a gqsgd_transport whose allreduce is not NULL; use "
              "another schedule, or auto",
              plan_.schedule->name);
}

/** Norms of blocks are taken later, chunk by chunk, and those of segments when ranks have agreed on
 *  them. With nonfinite=error all ranks have to know of values before codes move. */
Status Allreduce::take_norm(NormWords* norm) {
  const Format& format = call_.format;
  if (call_.segments != nullptr) *norm = norm_words(call_.segments->hash);
  const bool checked = format.nonfinite == Nonfinite::error;
  const bool has_one = has_norm(format.levels) && format.block == 0 && call_.segments == nullptr;
  if (!has_one) return checked ? check_finite() : Status();
  const Part all{0, call_.value_count};
  GQ_TRY(norm_of(all, call_.send, plan_.coding.rotated, norm));
  if (checked && !is_finite(*norm, format.q)) return refuse(all, call_.send, 0);
  *norm = GlobalNorm(format.q, format.p).to_wire(*norm);
  return Status();
}

Status Allreduce::norm_of(const Part& part, const void* values, bool rotated, NormWords* norm) {
  const Range range{part.first_value, static_cast<size_t>(part.value_count)};
  const StageArguments arguments(*endpoint_, call_, plan_, nullptr, nullptr);
  NormArgs args = arguments.norm(range, values, norm);
  args.rotated = rotated;
  return run_stage(*endpoint_, args);
}

/** A norm of values, rotated or as they are, shows whether they are finite. */
Status Allreduce::check_finite() {
  const size_t segment_count = call_.segments != nullptr ? call_.segments->parts.size() : 1;
  uint64_t before = 0;  // values of segments before this one
  for (size_t k = 0; k < segment_count; ++k) {
    const Part part =
        call_.segments != nullptr ? call_.segments->parts[k] : Part{0, call_.value_count};
    const void* values = call_.send_at(part.first_value, k);
    if (values == nullptr || part.value_count == 0) continue;
    NormWords norm;
    GQ_TRY(norm_of(part, values, false, &norm));
    if (!is_finite(norm, call_.format.q)) return refuse(part, values, before);
    before += part.value_count;
  }
  return Status();
}

/** Names the first value of range `part` that is not finite; `before` values of the call precede
 *  it. */
Status Allreduce::refuse(const Part& part, const void* values, uint64_t before) {
  nonfinite_ = find_nonfinite(values, part.value_count, call_.dtype);
  nonfinite_.first_value += before;
  return Agreement::nonfinite(*endpoint_, operation_name(call_), endpoint_->rank(), nonfinite_);
}

void Allreduce::report_damage_in_next_call() {
  if (endpoint_ == nullptr || !endpoint_->messages.found()) return;
  endpoint_->sequence += 1;
  Status sent = endpoint_->host->send_control(
      endpoint_->sequence, Agreement::damage_of(*endpoint_, endpoint_->messages.damage()));
  // Not waited for: it leaves as far as the transport takes it. If that fails the others find out
  // by themselves that this rank is missing.
  constexpr int kLooks = 8;
  bool flushed = false;
  for (int look = 0; look < kLooks && sent.ok() && !flushed; ++look) {
    sent = endpoint_->host->check();
    if (sent.ok()) sent = endpoint_->host->flushed(&flushed);
  }
}

Status Allreduce::advance(bool* done) {
  *done = false;
  if (phase_ == Phase::measure) {
    bool measured = false;
    GQ_TRY(measure(&measured));
    if (!measured) return Status();
  }
  if (phase_ == Phase::agree) {
    bool agreed = false;
    GQ_TRY(agree(&agreed));
    if (!agreed) return Status();
    if (is_short_) {
      phase_ = Phase::flush;  // a failure from here on is this rank's alone
    } else {
      GQ_TRY(allocate_workspace());
    }
  }
  if (phase_ == Phase::norms) GQ_TRY(exchange_norms());
  if (phase_ == Phase::sparse_entries) GQ_TRY(exchange_sparse_entries());
  if (phase_ == Phase::move) {
    bool moved = false;
    GQ_TRY(executor_.advance(&moved));
    if (moved) phase_ = Phase::done;
  }
  if (phase_ == Phase::flush) {
    bool flushed = false;
    GQ_TRY(endpoint_->host->flushed(&flushed));
    if (flushed) GQ_TRY(finish_short_call());
  }
  *done = phase_ == Phase::done;
  if (*done && !is_short_ && endpoint_->result.on && plan_.schedule != nullptr) keep_digest();
  return Status();
}

/** All values are here, and the own ones have left: what comes of them follows without another
 *  message, and a call that fails has not written. */
Status Allreduce::finish_short_call() {
  uint64_t digest = 0;
  GQ_TRY(endpoint_->short_calls->finish(*endpoint_, call_, &digest));
  phase_ = Phase::done;
  if (endpoint_->result.on) {
    endpoint_->result.digest = digest;
    endpoint_->result.sequence = sequence_;
  }
  return Status();
}

/** Of words that all ranks have: a slice of a reduce_scatter is its owner's alone. */
void Allreduce::keep_digest() {
  uint64_t digest = executor_.digest() + sparse_entries_.digest();
  const bool has_norms = has_norm(call_.format.levels) && call_.format.block == 0;
  const size_t norm_count = call_.segments != nullptr ? call_.segments->parts.size() : 1;
  const float* const norms = call_.segments != nullptr ? segment_norms_.norms() : &norm_;
  for (size_t k = 0; has_norms && k < norm_count; ++k) digest += digest_of_norm(k, norms[k]);
  endpoint_->result.digest = call_.operation == Operation::reduce_scatter ? 0 : digest;
  endpoint_->result.sequence = sequence_;
}

Status Allreduce::agree(bool* done) {
  const uint32_t before = agreement_.controls_read();
  const Status status = agreement_.conclude(*endpoint_, own_, done);
  events_ += agreement_.controls_read() - before;
  return status;
}

Status Allreduce::allocate_workspace() {
  phase_ = Phase::move;  // a failure from here on is this rank's alone
  const size_t arena_bytes = arena_bytes_of(plan_, *endpoint_);
  GQ_TRY(endpoint_->host->arena(arena_bytes, &arena_));
  endpoint_->workspace_bytes.raise_to(arena_bytes);
  events_ += 1;
  if (call_.segments != nullptr) {
    const bool one_each = plan_.coding.block == 0 && has_norm(plan_.coding.levels);
    if (one_each) phase_ = Phase::norms;
    segment_norms_.begin(*endpoint_, call_, plan_, arena_);
    executor_.begin(*endpoint_, call_, plan_, arena_, segment_norms_.norms(), false);
    return Status();
  }
  norm_ = agreement_.global_norm();
  if (!is_finite(norm_)) endpoint_->nonfinite_blocks += 1;
  if (plan_.schedule->sends_sparse_entries) {
    phase_ = Phase::sparse_entries;
    sparse_entries_.begin(*endpoint_, call_, plan_, arena_, norm_);
  }
  executor_.begin(*endpoint_, call_, plan_, arena_, &norm_, false);
  return Status();
}

Status Allreduce::exchange_norms() {
  bool done = false;
  GQ_TRY(segment_norms_.advance(&done));
  if (done) phase_ = Phase::move;
  return Status();
}

/** Moves follow where sparse entries take more bytes; the codes are encoded by then. */
Status Allreduce::exchange_sparse_entries() {
  SparseEntries::Outcome outcome = SparseEntries::Outcome::waiting;
  GQ_TRY(sparse_entries_.advance(&outcome));
  if (outcome == SparseEntries::Outcome::added) phase_ = Phase::done;
  if (outcome == SparseEntries::Outcome::too_long) {
    phase_ = Phase::move;
    executor_.begin(*endpoint_, call_, plan_, arena_, &norm_, true);
  }
  return Status();
}

void Allreduce::note_end(bool has_result) {
  EndedCall& ended = endpoint_->newest_ended;
  endpoint_->ended_calls += 1;
  ended.has_result = has_result;
  ended.in_place = call_.in_place() && call_.given_value_count() > 0;
  ended.result_bytes = endpoint_->newest_result_bytes;
  endpoint_->newest_result_bytes = 0;
  ended.is_kept = has_result && phase_ == Phase::done && ended.result_bytes != 0 &&
                  !plan_.schedule->sends_sparse_entries && !plan_.schedule->adds_natively;
  if (!ended.is_kept) return;
  ended.call = call_;
  ended.norm = norm_;
  ended.arena = arena_;
  ended.is_short = is_short_;
}

Status write_kept_result(Endpoint& endpoint, void* recv) {
  const EndedCall& ended = endpoint.newest_ended;
  if (ended.is_short) return endpoint.short_calls->write_kept_result(endpoint.rank(), recv);
  Call call = ended.call;
  call.send = call.recv = recv;
  Plan plan;
  GQ_TRY(make_plan(request_of(endpoint, call), &plan));
  Executor executor;
  executor.begin(endpoint, call, plan, ended.arena, &ended.norm, true);
  return executor.write_result();
}

/** Whether all that is left is that what was sent leaves this process. */
bool Allreduce::flushing() const {
  if (phase_ == Phase::sparse_entries) return sparse_entries_.flushing();
  return phase_ == Phase::flush || executor_.flushing();
}

Status Allreduce::timed_out(int64_t waited_ms, uint32_t* culprit) {
  const uint32_t self = endpoint_->rank();
  if (phase_ == Phase::measure) return measuring_->timed_out(waited_ms, culprit);
  if (phase_ == Phase::agree) return agreement_.timed_out(*endpoint_, waited_ms, culprit);
  if (phase_ == Phase::norms) return segment_norms_.timed_out(waited_ms, culprit);
  if (phase_ == Phase::sparse_entries && !flushing()) {
    return sparse_entries_.timed_out(waited_ms, culprit);
  }
  if (flushing()) {
    const uint32_t peer = endpoint_->host->unflushed_peer();
    const Culprit found(*endpoint_->host, peer, kStoppedOrSlow);
    *culprit = found.rank();
    return fail(GQSGD_TIMEOUT,
                "call %" PRIu64 ", %s: rank %u waited %" PRId64
                " ms for rank %u to take the last codes sent to it (schedule %s); %s (timeout_ms "
                "sets the limit)",
                endpoint_->sequence, operation_name(call_), self, waited_ms, peer,
                plan_.schedule->name, found.clause());
  }
  const Move& move = executor_.current();
  if (move.kind == MoveKind::await_sum) {
    *culprit = self;
    return fail(
        GQSGD_TIMEOUT,
        "call %" PRIu64 ", %s: rank %u waited %" PRId64
        " ms for the transport to add the packed codes of all %u ranks (schedule %s). All of them "
        "have made this call; the transport does not say whom it waits for: one is stopped "
        "or too slow (timeout_ms sets the limit; another schedule names it)",
        endpoint_->sequence, operation_name(call_), self, waited_ms, endpoint_->size(),
        plan_.schedule->name);
  }
  const Culprit found(*endpoint_->host, move.peer, kStoppedOrSlow);
  *culprit = found.rank();
  return fail(GQSGD_TIMEOUT,
              "call %" PRIu64 ", %s: rank %u waited %" PRId64 " ms for %s %" PRIu64 " to %" PRIu64
              " from rank %u (schedule %s, %" PRIu64 " moves made); %s (timeout_ms sets the limit)",
              endpoint_->sequence, operation_name(call_), self, waited_ms,
              move.content == Content::norms ? "norms of values" : "values", move.first_value,
              move.first_value + move.value_count - 1, move.peer, plan_.schedule->name,
              executor_.moves_made(), found.clause());
}

}  // namespace gq
