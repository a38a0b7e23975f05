// The wait for the control messages of all ranks.
#include "src/gpu/enqueue/agreement/host_agreement.h"

#include "src/gpu/device/time_range.h"
#include "src/support/clock.h"

namespace gq {

Status HostAgreement::exchange(const CallOnStream& call, Status own, Status* outcome) {
  const TimeRange range("gqsgd.await_headers");
  GQ_TRY(endpoint_.host->send_control(endpoint_.sequence, call.control));
  Agreement agreement;
  agreement.begin(call.call);
  GQ_TRY(await(&agreement));
  *outcome = agreement.outcome(endpoint_, own);
  return Status();
}

Status HostAgreement::await(Agreement* agreement) {
  const int64_t timeout_ms = endpoint_.timeout_ms.load(std::memory_order_relaxed);
  const uint64_t begun_us = monotonic_us();
  uint64_t deadline_us = deadline_after_ms(timeout_ms);
  for (;;) {
    const uint32_t before = agreement->controls_read();
    bool done = false;
    GQ_TRY(agreement->collect(endpoint_, &done));
    if (done) break;
    if (agreement->controls_read() != before) deadline_us = deadline_after_ms(timeout_ms);
    if (monotonic_us() >= deadline_us) {
      uint32_t culprit = 0;
      const Status late = agreement->timed_out(endpoint_, timeout_ms, &culprit);
      endpoint_.transport->abort_group(GQSGD_TIMEOUT, culprit);
      return late;
    }
    GQ_TRY(endpoint_.host->wait(kWaitSliceUs));
  }
  endpoint_.wait_ns += (monotonic_us() - begun_us) * 1000;
  return Status();
}

}  // namespace gq
