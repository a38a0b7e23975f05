// The paper on one screen: norm -> agree on the global norm -> quantize, reduce along the schedule,
// dequantize (the executor's moves).
#include "src/allreduce.h"

#include <inttypes.h>
#include <string.h>

#include <algorithm>

namespace gq {

Status Allreduce::begin(Endpoint& endpoint, const Call& call, Status own) {
  endpoint_ = &endpoint;
  call_ = call;
  own_ = own;
  phase_ = Phase::agree;
  events_ = 0;
  nonfinite_ = NonfiniteSite();
  lists_ = SparseLists();
  executor_ = Executor();
  endpoint.sequence += 1;
  endpoint.calls += 1;
  NormWords norm;
  if (own_.ok()) own_ = resolve_auto();
  if (own_.ok()) {
    const PlanRequest request{
        &call_.format,     call_.schedule_id,          endpoint.size(),
        call_.value_count, endpoint.chunk_value_count, endpoint.transport->reads_in_place()};
    own_ = make_plan(request, &plan_);
  }
  if (own_.ok()) own_ = take_norm(&norm);
  agreement_.begin(call_.format);
  const Header header = own_.ok() ? Agreement::header_of(endpoint, call_, plan_.schedule->id, norm)
                                  : Agreement::refusal_of(endpoint, own_.code(), nonfinite_);
  return endpoint.transport->publish(endpoint.sequence, header);
}

/** AUTO becomes a schedule here, from what all ranks agree on. The header has the format asked for
 *  and the choice: a rank that chose otherwise is found out before anything moves. */
Status Allreduce::resolve_auto() {
  if (call_.schedule_id != GQSGD_SCHEDULE_AUTO) return Status();
  const CostQuestion question{call_.format,
                              call_.schedule_id,
                              endpoint_->size(),
                              call_.value_count,
                              endpoint_->chunk_value_count,
                              call_.dtype};
  Choice choice{};
  GQ_TRY(endpoint_->choice.take(question, &choice));
  call_.schedule_id = choice.schedule_id;
  call_.uncompressed = choice.uncompressed;
  if (!choice.uncompressed) return Status();
  call_.asked_fields = fields_word(call_.format);
  call_.format = uncompressed(call_.format);
  return Status();
}

/** Norms of blocks are taken later, chunk by chunk. With nonfinite=error all ranks have to know
 *  before codes move, so that one norm of the values shows whether they are finite. */
Status Allreduce::take_norm(NormWords* norm) {
  const Format& format = call_.format;
  const bool blocks = format.block != 0;
  if (format.levels == Levels::none) return Status();
  if (blocks && format.nonfinite != Nonfinite::error) return Status();
  NormWords stage_out;
  NormArgs args{};
  args.q = format.q;
  args.rotated = plan_.coding.rotated && !blocks;
  args.random = random_site(*endpoint_, call_, 0);
  args.range = {0, static_cast<size_t>(call_.value_count)};
  args.values = call_.send;
  args.dtype = call_.dtype;
  args.out = &stage_out;
  GQ_TRY(Status(endpoint_->stages->norm(args)));
  const bool finite = format.q == NormOrder::inf ? stage_out.low < kFloatInfinityBits
                                                 : ((stage_out.high >> 20) & 0x7ff) != 0x7ff;
  if (!finite && format.nonfinite == Nonfinite::error) {
    nonfinite_ = find_nonfinite(call_.send, call_.value_count, call_.dtype);
    return Agreement::nonfinite(*endpoint_, endpoint_->rank(), nonfinite_);
  }
  if (!blocks) *norm = GlobalNorm(format.q, format.p).to_wire(stage_out);
  return Status();
}

Status Allreduce::advance(bool* done) {
  *done = false;
  if (phase_ == Phase::agree) {
    bool agreed = false;
    GQ_TRY(agree(&agreed));
    if (!agreed) return Status();
    phase_ = plan_.schedule->sends_lists ? Phase::lists : Phase::move;
    GQ_TRY(start_moves());
  }
  if (phase_ == Phase::lists) GQ_TRY(exchange_lists());
  if (phase_ == Phase::move) {
    bool moved = false;
    GQ_TRY(executor_.advance(&moved));
    if (moved) phase_ = Phase::done;
  }
  *done = phase_ == Phase::done;
  return Status();
}

Status Allreduce::agree(bool* done) {
  const uint32_t before = agreement_.headers_read();
  GQ_TRY(agreement_.collect(*endpoint_, done));
  events_ += agreement_.headers_read() - before;
  if (!*done) return Status();
  return agreement_.verdict(*endpoint_, own_);
}

Status Allreduce::start_moves() {
  const size_t arena_bytes = plan_.layout.arena_bytes();
  GQ_TRY(endpoint_->transport->arena(arena_bytes, &arena_));
  endpoint_->workspace_bytes = std::max<uint64_t>(endpoint_->workspace_bytes, arena_bytes);
  const float norm = agreement_.global_norm();
  if (!is_finite(norm)) endpoint_->nonfinite_blocks += 1;
  if (phase_ == Phase::lists) {
    lists_.begin(*endpoint_, call_, plan_, arena_, norm);
  } else {
    executor_.begin(*endpoint_, call_, plan_, arena_, norm, false);
  }
  events_ += 1;
  return Status();
}

/** Moves follow where lists do not pay; they find the codes made. */
Status Allreduce::exchange_lists() {
  SparseLists::Outcome outcome = SparseLists::Outcome::waiting;
  GQ_TRY(lists_.advance(&outcome));
  if (outcome == SparseLists::Outcome::added) phase_ = Phase::done;
  if (outcome == SparseLists::Outcome::too_long) {
    phase_ = Phase::move;
    executor_.begin(*endpoint_, call_, plan_, arena_, agreement_.global_norm(), true);
  }
  return Status();
}

Status Allreduce::timed_out(int64_t waited_ms, uint32_t* culprit) {
  const uint32_t self = endpoint_->rank();
  if (phase_ == Phase::agree) {
    char missing[128];
    Agreement::missing_ranks(*endpoint_, agreement_.headers_read(), missing, sizeof missing,
                             culprit);
    return fail(
        GQSGD_TIMEOUT,
        "call %" PRIu64 ", allreduce: rank %u waited %" PRId64
        " ms for rank%s %s to make "
        "this call; they are late, stopped, or make other calls (timeout_ms sets the limit)",
        endpoint_->sequence, self, waited_ms, strchr(missing, ',') ? "s" : "", missing);
  }
  if (phase_ == Phase::lists) return lists_.timed_out(waited_ms, culprit);
  const Move& move = executor_.current();
  *culprit = move.peer;
  return fail(GQSGD_TIMEOUT,
              "call %" PRIu64 ", allreduce: rank %u waited %" PRId64 " ms for %s %" PRIu64
              " to %" PRIu64 " from rank %u (schedule %s, %" PRIu64
              " moves made); it is stopped "
              "or too slow (timeout_ms sets the limit)",
              endpoint_->sequence, self, waited_ms,
              move.content == Content::norms ? "norms of values" : "values", move.first_value,
              move.first_value + move.value_count - 1, move.peer, plan_.schedule->name,
              executor_.moves_made());
}

}  // namespace gq
