// One lock around a status and its sentence; none where nothing has failed.
#include "src/support/first_failure.h"

#include <inttypes.h>
#include <stdio.h>

namespace gq {

void FirstFailure::keep_locked(Status status, const char* sentence) {
  if (!status_.ok()) return;
  status_ = status;
  snprintf(sentence_, sizeof sentence_, "%s", sentence);
  broken_.store(true, std::memory_order_release);
}

/** An abort came before any failure that is kept or read now. */
void FirstFailure::settle_abort() {
  const uint64_t aborter = aborter_.load(std::memory_order_acquire);
  if (aborter == 0) return;
  char sentence[64];
  snprintf(sentence, sizeof sentence, "rank %" PRIu64 " aborted its communicator", aborter - 1);
  keep_locked(Status(GQSGD_ABORTED), sentence);
}

void FirstFailure::keep(Status status, const char* sentence) {
  const std::lock_guard<std::mutex> lock(mutex_);
  settle_abort();
  keep_locked(status, sentence);
}

Status FirstFailure::get() {
  if (!was_abort() && !broken_.load(std::memory_order_acquire)) return Status();
  const std::lock_guard<std::mutex> lock(mutex_);
  settle_abort();
  return fail_with(status_.code(), sentence_);
}

}  // namespace gq
