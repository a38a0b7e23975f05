// One lock around a status; none where nothing has failed.
#include "src/support/first_failure.h"

#include <inttypes.h>

#include <utility>

namespace gq {

void FirstFailure::keep_locked(Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  broken_.store(true, std::memory_order_release);
}

/** An abort came before any failure that is kept or read now. */
void FirstFailure::settle_abort() {
  const uint64_t aborter = aborter_.load(std::memory_order_acquire);
  if (aborter == 0 || !status_.ok()) return;
  keep_locked(fail(GQSGD_ABORTED, "rank %" PRIu64 " aborted its communicator", aborter - 1));
}

void FirstFailure::keep(Status status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  settle_abort();
  keep_locked(std::move(status));
}

Status FirstFailure::get() {
  if (!was_abort() && !broken_.load(std::memory_order_acquire)) return Status();
  const std::lock_guard<std::mutex> lock(mutex_);
  settle_abort();
  return status_;
}

}  // namespace gq
