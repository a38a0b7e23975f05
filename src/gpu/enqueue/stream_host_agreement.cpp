// Calls on streams of ranks whose hosts synchronize: headers are compared there, before anything is
// enqueued, so that a difference is found at once, on all ranks.
#include "src/gpu/device/time_range.h"
#include "src/gpu/enqueue/scratch_layout.h"
#include "src/gpu/enqueue/stream_calls.h"
#include "src/support/clock.h"

namespace gq {
Status StreamCalls::enqueue_after_host_agreement(Attempt* attempt, const Status& refusal,
                                                 bool takes_norm) {
  Status outcome;
  Status status = agree_headers(*attempt, refusal, &outcome);
  if (status.ok() && !outcome.ok()) {
    count_refused(attempt->call);
    return outcome;
  }
  if (status.ok()) status = fill(attempt, takes_norm);
  if (status.ok()) return status;
  // The others continue, or have continued: a failure from here on is not shared.
  endpoint_.failure.keep(status);
  transport_.abort_group(status.code(), endpoint_.rank());
  (void)device_.record(done_, attempt->call.stream).ok();
  return endpoint_.failure.get();
}

/** The agreed status of the headers, or a failure to get them. */
Status StreamCalls::agree_headers(const Attempt& attempt, const Status& refusal, Status* outcome) {
  const TimeRange range("gqsgd.await_headers");
  GQ_TRY(endpoint_.transport->publish(endpoint_.sequence, attempt.header));
  Agreement agreement;
  agreement.begin(attempt.call);
  GQ_TRY(await_headers(&agreement));
  *outcome = agreement.outcome(endpoint_, refusal);
  return Status();
}

Status StreamCalls::await_headers(Agreement* agreement) {
  const int64_t timeout_ms = endpoint_.timeout_ms.load(std::memory_order_relaxed);
  const uint64_t begun_us = monotonic_us();
  uint64_t deadline_us = deadline_after_ms(timeout_ms);
  for (;;) {
    const uint32_t before = agreement->headers_read();
    bool done = false;
    GQ_TRY(agreement->collect(endpoint_, &done));
    if (done) break;
    if (agreement->headers_read() != before) deadline_us = deadline_after_ms(timeout_ms);
    if (monotonic_us() >= deadline_us) {
      uint32_t culprit = 0;
      const Status late = agreement->timed_out(endpoint_, timeout_ms, &culprit);
      endpoint_.transport->abort_group(GQSGD_TIMEOUT, culprit);
      return late;
    }
    GQ_TRY(endpoint_.transport->wait(kWaitSliceUs));
  }
  endpoint_.wait_ns += (monotonic_us() - begun_us) * 1000;
  return Status();
}

/** Norms are gathered on the device, each in its rank's header, and merged there; steps that no
 *  host knows are compared. */
Status StreamCalls::fill(Attempt* attempt, bool takes_norm) {
  const Call& call = attempt->call;
  if (call.value_count > 0) GQ_TRY(transport_.begin_call());
  uint32_t block_count = 0;
  GQ_TRY(fused_block_count(*attempt, &block_count));
  if (block_count > 0) return execute_fused(attempt, block_count);
  if (takes_norm || call.step_at != nullptr) {
    GQ_TRY(publish(*attempt, takes_norm));
    GQ_TRY(agree_on_device(call, attempt->found));
    return execute_call(attempt);
  }
  GQ_TRY(device_.wait(call.stream, done_));
  GQ_TRY(device_.clear(scratch_.data() + kGateBytes, sizeof(uint32_t), call.stream));
  return execute_call(attempt);
}

}  // namespace gq
