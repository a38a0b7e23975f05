// Requests on streams: a call that is enqueued at once, and whose end is tested later.
#include <inttypes.h>

#include "src/gpu/enqueue/stream_calls.h"
#include "src/support/clock.h"

namespace gq {

void StreamCalls::start(std::shared_ptr<Request> request) {
  const Call& call = request->call();
  std::unique_ptr<PendingOperation> pending;
  Status own = refuse_capture(call);
  if (own.ok()) own = pending_operations_.take(device_, &pending);
  if (own.ok()) own = request->status();
  const Status made = make(call, own, pending ? pending->disagreement.as<Disagreement>() : nullptr);
  if (!made.ok()) request->end(made);
  if (!pending) return;
  const Status recorded = made.ok() ? end(device_.record(pending->behind, call.stream)) : made;
  if (!recorded.ok()) {
    if (made.ok()) request->end(recorded);
    return pending_operations_.give_back(std::move(pending));
  }
  pending->request = std::move(request);
  pending_operations_.begin(std::move(pending));
}

Status StreamCalls::refuse_capture(const Call& call) const {
  bool capturing = false;
  GQ_TRY(device_.is_capturing(call.stream, &capturing));
  if (!capturing) return Status();
  return fail(GQSGD_UNSUPPORTED,
              "stream %p is being captured: a request cannot be tested in a graph; make the call "
              "without one",
              call.stream);
}

bool StreamCalls::test(const Request& request) {
  OnDevice here(device_);
  Status status = here.enter(transport_.ordinal());
  bool done = true;
  while (status.ok() && done && pending_operations_.first() != nullptr) {
    PendingOperation& pending = *pending_operations_.first();
    status = device_.query(pending.behind, &done);
    if (status.ok()) status = done ? Status() : look_after(&pending);
    if (status.ok() && done) pending_operations_.end_first(outcome_of(pending));
  }
  if (!status.ok()) end_pending(end(status));
  return request.has_ended();
}

/** OK while there is hope for a call that is not through. What breaks a group lets its streams
 *  through soon, and then the caller's memory is its own again. */
Status StreamCalls::look_after(PendingOperation* pending) {
  const int64_t timeout_ms = endpoint_.timeout_ms.load(std::memory_order_relaxed);
  Status broken = endpoint_.intact();
  if (broken.ok()) broken = end(transport_.check());
  if (!broken.ok() && !pending->given_up) {
    pending->given_up = true;
    pending->deadline_us = deadline_after_ms(kGraceMs);
  }
  if (pending->deadline_us == 0) pending->deadline_us = deadline_after_ms(timeout_ms);
  if (monotonic_us() < pending->deadline_us) return Status();
  return broken.ok() ? timed_out(timeout_ms, "a request") : broken;
}

void StreamCalls::wait(const Request& request) {
  OnDevice here(device_);
  Status status = end(here.enter(transport_.ordinal()));
  if (const PendingOperation* pending = pending_operations_.find(request);
      pending != nullptr && status.ok()) {
    status = end(wait_on_host(pending->behind, "a request"));
    bool through = status.ok();
    if (!through) {
      const uint64_t deadline_us = deadline_after_ms(kGraceMs);
      (void)wait_for(device_, pending->behind, deadline_us, nullptr, nullptr, &through).ok();
    }
  }
  if (!status.ok()) return end_pending(status);
  while (!request.has_ended() && pending_operations_.first() != nullptr) {
    pending_operations_.end_first(outcome_of(*pending_operations_.first()));
  }
}

void StreamCalls::end_pending(Status status) {
  while (pending_operations_.first() != nullptr) pending_operations_.end_first(status);
}

/** The status of a call that its stream has passed: if the group broke meanwhile, it is unknown
 *  whether the call was executed. */
Status StreamCalls::outcome_of(const PendingOperation& pending) {
  GQ_TRY(late_failure_of_kernels());
  GQ_TRY(endpoint_.intact());
  return end(describe(pending.disagreement.as<const Disagreement>()));
}

}  // namespace gq
