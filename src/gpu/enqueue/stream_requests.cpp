// The status of a request: of its stream, of the group, and of what the device has found.
#include "src/gpu/enqueue/stream_requests.h"

#include "src/gpu/enqueue/agreement/disagreement.h"
#include "src/support/clock.h"

namespace gq {

void StreamRequests::begin(std::shared_ptr<Request> request,
                           std::unique_ptr<PendingOperation> pending, Status made) {
  if (!made.ok()) request->end(made);
  if (!pending) return;
  const StreamHandle stream = request->call().stream;
  const Status recorded = made.ok() ? group_.device().record(pending->behind, stream) : made;
  if (!recorded.ok()) {
    if (made.ok()) request->end(group_.break_with(recorded));
    return pending_.give_back(std::move(pending));
  }
  pending->request = std::move(request);
  pending_.begin(std::move(pending));
}

bool StreamRequests::test(const Request& request) {
  OnDevice here(group_.device());
  Status status = here.enter(group_.transport().ordinal());
  bool done = true;
  while (status.ok() && done && pending_.first() != nullptr) {
    PendingOperation& pending = *pending_.first();
    status = group_.device().query(pending.behind, &done);
    if (status.ok()) status = done ? Status() : check_progress(&pending);
    if (status.ok() && done) pending_.end_first(outcome_of(pending));
  }
  if (!status.ok()) end_all(group_.break_with(status));
  return request.has_ended();
}

/** OK while there is hope for a call that is not through. What breaks a group lets its streams
 *  through soon, and then the caller's memory is its own again. */
Status StreamRequests::check_progress(PendingOperation* pending) {
  const Endpoint& endpoint = group_.endpoint();
  const int64_t timeout_ms = endpoint.timeout_ms.load(std::memory_order_relaxed);
  Status broken = group_.endpoint().intact();
  if (broken.ok()) broken = group_.break_with(group_.transport().check());
  if (!broken.ok() && !pending->given_up) {
    pending->given_up = true;
    pending->deadline_us = deadline_after_ms(StreamGroup::kGraceMs);
  }
  if (pending->deadline_us == 0) pending->deadline_us = deadline_after_ms(timeout_ms);
  if (monotonic_us() < pending->deadline_us) return Status();
  return broken.ok() ? group_.timed_out(timeout_ms, "a request") : broken;
}

void StreamRequests::wait(const Request& request) {
  OnDevice here(group_.device());
  Status status = group_.break_with(here.enter(group_.transport().ordinal()));
  const PendingOperation* const pending = pending_.find(request);
  if (pending != nullptr && status.ok()) status = wait_for_stream(*pending);
  if (!status.ok()) return end_all(status);
  while (!request.has_ended() && pending_.first() != nullptr) {
    pending_.end_first(outcome_of(*pending_.first()));
  }
}

/** After a failure the stream has a grace period: the caller's memory is in use until it ends. */
Status StreamRequests::wait_for_stream(const PendingOperation& pending) {
  const Status status = group_.break_with(group_.wait_on_host(pending.behind, "a request"));
  if (!status.ok()) (void)group_.ends(pending.behind);
  return status;
}

void StreamRequests::end_passed() {
  while (pending_.first() != nullptr) pending_.end_first(outcome_of(*pending_.first()));
}

void StreamRequests::end_all(Status status) {
  while (pending_.first() != nullptr) pending_.end_first(status);
}

/** The status of a call that its stream has passed: if the group broke meanwhile, it is unknown
 *  whether the call was executed. */
Status StreamRequests::outcome_of(const PendingOperation& pending) {
  GQ_TRY(group_.late_failure_of_kernels());
  GQ_TRY(group_.endpoint().intact());
  return group_.break_on(
      describe_disagreement(group_.endpoint(), *pending.disagreement.as<const Disagreement>()));
}

}  // namespace gq
