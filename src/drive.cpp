// How an allreduce is driven to its end: by one thread per rank that sleeps in the one wait
// primitive, or by one thread that takes all ranks in turn. The state machine is the same.
#include <inttypes.h>
#include <time.h>

#include <memory>
#include <new>

#include "src/allreduce.h"

namespace gq {
namespace {

// A sleeper looks for dead peers this often; a bell wakes it sooner.
constexpr uint32_t kWaitSliceUs = 5000;

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<int64_t>(time.tv_sec) * 1000000000 + time.tv_nsec;
}

/** Statuses 60 to 79: a rank is gone or late. Others, before codes move, are shared by all ranks.
 */
bool is_run_failure(gqsgd_status code) { return code >= GQSGD_TIMEOUT && code < GQSGD_NONFINITE; }

bool has_expired(const Endpoint& endpoint, int64_t idle_ns, int64_t* idle_ms) {
  const int64_t timeout_ms = endpoint.timeout_ms.load(std::memory_order_relaxed);
  *idle_ms = idle_ns / 1000000;
  return timeout_ms >= 0 && *idle_ms >= timeout_ms;
}

Status wait_for_progress(Endpoint& endpoint, Allreduce& operation, int64_t progress_ns) {
  const int64_t before_ns = now_ns();
  GQ_TRY(endpoint.transport->wait(kWaitSliceUs));
  const int64_t after_ns = now_ns();
  endpoint.wait_ns += static_cast<uint64_t>(after_ns - before_ns);
  int64_t idle_ms = 0;
  if (!has_expired(endpoint, after_ns - progress_ns, &idle_ms)) return Status();
  // A slow thread may have been suspended itself: what came meanwhile counts.
  const uint64_t before = operation.progress();
  bool done = false;
  GQ_TRY(operation.advance(&done));
  if (done || operation.progress() != before) return Status();
  uint32_t culprit = 0;
  const Status status = operation.timed_out(idle_ms, &culprit);
  endpoint.transport->break_off(status.code(), culprit);
  return status;
}

Status run(Endpoint& endpoint, Allreduce& operation) {
  int64_t progress_ns = now_ns();
  uint64_t progress = 0;
  for (;;) {
    bool done = false;
    GQ_TRY(operation.advance(&done));
    if (done) return Status();
    if (operation.progress() != progress) {
      progress = operation.progress();
      progress_ns = now_ns();
    }
    GQ_TRY(wait_for_progress(endpoint, operation, progress_ns));
  }
}

}  // namespace

Status allreduce(Endpoint& endpoint, const Call& call, Status own, bool* broken) {
  Allreduce operation;
  Status status = operation.begin(endpoint, call, own);
  const bool published = status.ok();
  if (published) status = run(endpoint, operation);
  *broken = !status.ok() && (!published || operation.agreed() || is_run_failure(status.code()));
  if (*broken) endpoint.transport->break_off(status.code(), endpoint.rank());
  return status;
}

Status allreduce_in_turn(Endpoint* endpoints, const Call* calls, uint32_t ranks) {
  std::unique_ptr<Allreduce[]> operations(new (std::nothrow) Allreduce[ranks]);
  if (!operations) return fail(GQSGD_NO_MEMORY, "no memory for %u virtual ranks", ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    GQ_TRY(operations[rank].begin(endpoints[rank], calls[rank], Status()));
  }
  for (uint32_t finished = 0; finished < ranks;) {
    uint64_t events = 0;
    finished = 0;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const uint64_t before = operations[rank].progress();
      bool done = false;
      GQ_TRY(operations[rank].advance(&done));
      events += operations[rank].progress() - before;
      finished += done ? 1 : 0;
    }
    if (finished < ranks && events == 0) {
      return fail(GQSGD_INTERNAL, "schedule stuck: %u of %u virtual ranks finished", finished,
                  ranks);
    }
  }
  return Status();
}

}  // namespace gq
