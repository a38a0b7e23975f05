// One lock around a status and its sentence; none where nothing has failed.
#include "src/support/first_failure.h"

#include <inttypes.h>
#include <stdio.h>

namespace gq {

/** True if it is the first. */
bool FirstFailure::keep_locked(Status status, const char* sentence) {
  if (!status_.ok()) return false;
  status_ = status;
  snprintf(sentence_, sizeof sentence_, "%s", sentence);
  broken_.store(true, std::memory_order_release);
  return true;
}

/** An abort came before any failure that is kept or read now. */
bool FirstFailure::settle_abort() {
  const uint64_t aborter = aborter_.load(std::memory_order_acquire);
  if (aborter == 0) return false;
  char sentence[64];
  snprintf(sentence, sizeof sentence, "rank %" PRIu64 " aborted its communicator", aborter - 1);
  return keep_locked(Status(GQSGD_ABORTED), sentence);
}

/** Outside of the lock: what was kept stays as it is. */
void FirstFailure::log() const {
  log_line(GQSGD_LOG_INFO, subject_, "broken by %s: %s", gqsgd_status_name(status_.code()),
           sentence_);
}

void FirstFailure::keep(Status status, const char* sentence) {
  bool is_first = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_first = settle_abort() || keep_locked(status, sentence);
  }
  if (is_first) log();
}

Status FirstFailure::get() {
  if (!was_abort() && !broken_.load(std::memory_order_acquire)) return Status();
  bool is_first = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_first = settle_abort();
  }
  if (is_first) log();
  return fail_with(status_.code(), sentence_);
}

}  // namespace gq
