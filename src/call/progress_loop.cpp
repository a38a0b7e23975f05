// The loop around the state machine, and the clock that runs while nothing happens.
#include "src/call/progress_loop.h"

#include <algorithm>

#include "src/support/clock.h"

namespace gq {
namespace {

/** Statuses 60 to 79: a rank is gone or late. BACKEND: this one can no longer reach the others. All
 *  else is shared by all ranks, if they have compared their arguments and no codes move. */
bool is_run_failure(gqsgd_status code) {
  return (code >= GQSGD_TIMEOUT && code < GQSGD_NONFINITE) || code == GQSGD_BACKEND;
}

// Looks that find nothing before a call gives up, at the least.
constexpr uint64_t kLooksMin = 8;
// A wait takes a slice by itself, and about as long again where processors are shared.
constexpr uint64_t kWaitCountedNs = 2 * kWaitSliceUs * uint64_t{1000};
// So long a thread waits in one communicator before it looks at others.
constexpr uint32_t kSharedSliceUs = 100;

}  // namespace

void ProgressLoop::begin(Endpoint& endpoint, const Call& call, Status own) {
  endpoint_ = &endpoint;
  ended_ = false;
  sent_control_ = has_others_ = false;
  progress_ = 0;
  progress_ns_ = looked_ns_ = monotonic_ns();
  log_.begin(endpoint, call);
  Status begun = endpoint.failure.get();
  if (begun.ok()) begun = operation_.begin(endpoint, call, own);
  sent_control_ = begun.ok();
  if (!sent_control_) end(begun);
}

bool ProgressLoop::advance() {
  if (ended_) return true;
  bool done = false;
  const Status status = operation_.advance(&done);
  if (!status.ok() || done) {
    end(status);
  } else if (operation_.progress() != progress_) {
    progress_ = operation_.progress();
    progress_ns_ = monotonic_ns();
  }
  return ended_;
}

void ProgressLoop::wait() {
  const uint64_t before_ns = monotonic_ns();
  const Status status = endpoint_->host->wait(has_others_ ? kSharedSliceUs : kWaitSliceUs);
  has_others_ = endpoint_->while_waiting != nullptr && endpoint_->while_waiting(endpoint_);
  shorten_pause(kWaitCountedNs);
  endpoint_->wait_ns += looked_ns_ - before_ns;
  status.ok() ? give_up_in_time() : end(status);
}

void ProgressLoop::look() {
  const Status status = endpoint_->transport->check();
  shorten_pause(0);
  status.ok() ? give_up_in_time() : end(status);
}

/** A message may take several looks at either end, of which the last alone shows. A caller that
 *  pauses between looks for long, or whose process is stopped, has not seen that nothing happens,
 *  and counts little of it: an eighth of the timeout, or `least_ns` if that is more. */
void ProgressLoop::shorten_pause(uint64_t least_ns) {
  const uint64_t now_ns = monotonic_ns();
  const int64_t timeout_ms = endpoint_->timeout_ms.load(std::memory_order_relaxed);
  const uint64_t pause_ns = now_ns - looked_ns_;
  const uint64_t counted_ns =
      std::max(static_cast<uint64_t>(timeout_ms) * 1000000 / kLooksMin, least_ns);
  const bool idle = progress_ns_ <= looked_ns_;
  if (timeout_ms >= 0 && idle && pause_ns > counted_ns) progress_ns_ += pause_ns - counted_ns;
  looked_ns_ = now_ns;
}

void ProgressLoop::give_up_in_time() {
  const int64_t timeout_ms = endpoint_->timeout_ms.load(std::memory_order_relaxed);
  const int64_t idle_ms = static_cast<int64_t>((monotonic_ns() - progress_ns_) / 1000000);
  if (timeout_ms < 0 || idle_ms < timeout_ms) return;
  // A slow thread may have been suspended itself: what came meanwhile counts.
  const uint64_t noted_ns = progress_ns_;
  if (advance() || progress_ns_ != noted_ns) return;
  uint32_t culprit = 0;
  const Status status = operation_.timed_out(idle_ms, &culprit);
  endpoint_->transport->abort_group(status.code(), culprit);
  end(status);
}

void ProgressLoop::end(Status status) {
  ended_ = true;
  const bool shared = sent_control_ && operation_.compared() && !operation_.agreed() &&
                      !is_run_failure(status.code());
  if (status.code() == GQSGD_INTEGRITY) operation_.report_damage_in_next_call();
  if (!status.ok() && !shared) {
    endpoint_->failure.keep(status);
    // Where results differ all ranks find out by themselves, and name the same ranks.
    const bool alike = sent_control_ && operation_.found_divergence();
    if (!alike) endpoint_->transport->abort_group(status.code(), endpoint_->rank());
  }
  if (sent_control_ && (status.ok() || shared)) {
    operation_.note_end(status.ok());
  }
  // A complete result stays valid, whatever has broken the endpoint meanwhile. The first failure is
  // reported; it may be another thread's.
  const Status broken = status.ok() ? Status() : endpoint_->failure.get();
  status_ = broken.ok() ? status : broken;
  log_.end(endpoint_, operation_.call(), status_.ok() ? operation_.schedule_name() : "", status_);
}

Status allreduce(Endpoint& endpoint, const Call& call, Status own) {
  ProgressLoop loop;
  loop.begin(endpoint, call, own);
  while (!loop.advance()) loop.wait();
  return loop.status();
}

Status measure_costs(Endpoint& endpoint) {
  Call call;
  call.operation = Operation::measure_costs;
  return allreduce(endpoint, call, Status());
}

void abort_endpoint(Endpoint& endpoint) {
  endpoint.failure.keep_abort(endpoint.rank());
  endpoint.transport->abort();
}

void abort_group(Endpoint& endpoint, const char* what) {
  endpoint.failure.keep(fail(GQSGD_ABORTED, "rank %u %s", endpoint.rank(), what));
  endpoint.transport->abort_group(GQSGD_ABORTED, endpoint.rank());
}

}  // namespace gq
