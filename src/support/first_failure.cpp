// One lock around a status; none where nothing has failed.
#include "src/support/first_failure.h"

#include <inttypes.h>

#include <utility>

namespace gq {

/** True if it is the first. */
bool FirstFailure::keep_locked(Status status) {
  if (!status_.ok()) return false;
  status_ = std::move(status);
  broken_.store(true, std::memory_order_release);
  return true;
}

/** An abort came before any failure that is kept or read now. */
bool FirstFailure::settle_abort() {
  const uint64_t aborter = aborter_.load(std::memory_order_acquire);
  if (aborter == 0 || !status_.ok()) return false;
  return keep_locked(fail(GQSGD_ABORTED, "rank %" PRIu64 " aborted its communicator", aborter - 1));
}

/** Outside of the lock: what was kept stays as it is. */
void FirstFailure::log() const {
  log_line(GQSGD_LOG_INFO, subject_, "broken by %s: %s", gqsgd_status_name(status_.code()),
           status_.sentence());
}

void FirstFailure::keep(Status status) {
  bool is_first = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_first = settle_abort() || keep_locked(std::move(status));
  }
  if (is_first) log();
}

Status FirstFailure::get() {
  if (!was_abort() && !broken_.load(std::memory_order_acquire)) return Status();
  bool is_first = false;
  Status kept;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_first = settle_abort();
    kept = status_;
  }
  if (is_first) log();
  return kept;
}

}  // namespace gq
