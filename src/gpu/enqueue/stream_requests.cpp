// Requests on streams: a call that is enqueued at once, and an end that somebody asks after.
#include <inttypes.h>

#include "src/gpu/enqueue/stream_calls.h"
#include "src/support/clock.h"
#include "src/support/kept_failure.h"

namespace gq {

void StreamCalls::start(std::shared_ptr<Request> request) {
  const Call& call = request->call();
  const KeptFailure refused(request->status());
  std::unique_ptr<Flight> flight;
  Status own = refuse_capture(call);
  if (own.ok()) own = flights_.take(device_, &flight);
  if (own.ok()) own = refused.again();
  const Status made = make(call, own, flight ? flight->disagreement.as<Disagreement>() : nullptr);
  if (!made.ok()) request->end(made);
  if (!flight) return;
  const Status recorded = made.ok() ? end(device_.record(flight->behind, call.stream)) : made;
  if (!recorded.ok()) {
    if (made.ok()) request->end(recorded);
    return flights_.give_back(std::move(flight));
  }
  flight->request = std::move(request);
  flights_.begin(std::move(flight));
}

Status StreamCalls::refuse_capture(const Call& call) const {
  bool capturing = false;
  GQ_TRY(device_.is_capturing(call.stream, &capturing));
  if (!capturing) return Status();
  return fail(
      GQSGD_UNSUPPORTED,
      "stream %p is being captured: nobody can ask after a request in a graph; make the call "
      "without one",
      call.stream);
}

bool StreamCalls::test(const Request& request) {
  OnDevice here(device_);
  Status status = here.enter(transport_.ordinal());
  bool done = true;
  while (status.ok() && done && flights_.first() != nullptr) {
    Flight& flight = *flights_.first();
    status = device_.query(flight.behind, &done);
    if (status.ok()) status = done ? Status() : look_after(&flight);
    if (status.ok() && done) flights_.end_first(verdict_of(flight));
  }
  if (!status.ok()) end_flights(end(status));
  return request.has_ended();
}

/** OK while there is hope for a call that is not through. What breaks a group lets its streams
 *  through soon, and then the caller's memory is its own again. */
Status StreamCalls::look_after(Flight* flight) {
  const int64_t timeout_ms = endpoint_.timeout_ms.load(std::memory_order_relaxed);
  Status broken = endpoint_.intact();
  if (broken.ok()) broken = end(transport_.check());
  if (!broken.ok() && !flight->given_up) {
    flight->given_up = true;
    flight->deadline_us = deadline_after_ms(kGraceMs);
  }
  if (flight->deadline_us == 0) flight->deadline_us = deadline_after_ms(timeout_ms);
  if (monotonic_us() < flight->deadline_us) return Status();
  return broken.ok() ? timed_out(timeout_ms, "a request") : broken;
}

void StreamCalls::wait(const Request& request) {
  OnDevice here(device_);
  Status status = end(here.enter(transport_.ordinal()));
  if (const Flight* flight = flights_.find(request); flight != nullptr && status.ok()) {
    status = end(wait_on_host(flight->behind, "a request"));
    const KeptFailure kept(status);
    bool through = status.ok();
    if (!through) {
      const uint64_t deadline_us = deadline_after_ms(kGraceMs);
      (void)wait_for(device_, flight->behind, deadline_us, nullptr, nullptr, &through).ok();
    }
    status = kept.again();
  }
  if (!status.ok()) return end_flights(status);
  while (!request.has_ended() && flights_.first() != nullptr) {
    flights_.end_first(verdict_of(*flights_.first()));
  }
}

void StreamCalls::end_flights(Status status) {
  const KeptFailure kept(status);
  while (flights_.first() != nullptr) flights_.end_first(kept.again());
}

/** Of a call that its stream is through with: where the group broke meanwhile nobody knows whether
 *  it was carried out. */
Status StreamCalls::verdict_of(const Flight& flight) {
  GQ_TRY(late_failure_of_kernels());
  GQ_TRY(endpoint_.intact());
  return end(describe(flight.disagreement.as<const Disagreement>()));
}

}  // namespace gq
