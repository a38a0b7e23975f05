// The host's waits, and failures of one rank alone.
#include "src/gpu/enqueue/stream_group.h"

#include <inttypes.h>

#include "src/support/clock.h"

namespace gq {

Status StreamGroup::wait_on_host(EventHandle event, const char* what) {
  const int64_t timeout_ms = endpoint_.timeout_ms.load(std::memory_order_relaxed);
  const uint64_t begun_us = monotonic_us();
  bool done = false;
  const auto look = [](void* group) {
    StreamGroup& self = *static_cast<StreamGroup*>(group);
    GQ_TRY(self.endpoint_.intact());
    return self.transport_.check();
  };
  GQ_TRY(wait_for(device_, event, deadline_after_ms(timeout_ms), look, this, &done));
  endpoint_.wait_ns += (monotonic_us() - begun_us) * 1000;
  return done ? Status() : timed_out(timeout_ms, what);
}

bool StreamGroup::ends(EventHandle event) const {
  bool ended = false;
  (void)wait_for(device_, event, deadline_after_ms(kGraceMs), nullptr, nullptr, &ended).ok();
  return ended;
}

Status StreamGroup::timed_out(int64_t timeout_ms, const char* what) const {
  return fail(GQSGD_TIMEOUT,
              "call %" PRIu64 ": rank %u waited %" PRId64
              " ms on its stream for %s: a rank is late, stopped, or makes other calls, or earlier "
              "work of the stream takes as long (timeout_ms sets the limit)",
              endpoint_.sequence, endpoint_.rank(), timeout_ms, what);
}

Status StreamGroup::break_on(Status status) {
  const gqsgd_status code = status.code();
  const bool broke = (code >= GQSGD_TIMEOUT && code < GQSGD_NONFINITE) || code == GQSGD_BACKEND ||
                     code == GQSGD_INTERNAL;
  return broke ? break_with(status) : status;
}

Status StreamGroup::break_with(Status status) {
  if (status.ok()) return status;
  endpoint_.failure.keep(status);
  transport_.abort_group(status.code(), endpoint_.rank());
  return endpoint_.failure.get();
}

Status StreamGroup::late_failure_of_kernels() {
  FusedKernels* const fused = transport_.fused();
  return fused == nullptr ? Status() : break_with(fused->late_failure());
}

}  // namespace gq
