// One lock around a status and its sentence.
#include "src/support/first_failure.h"

#include <stdio.h>

namespace gq {

void FirstFailure::keep(Status status, const char* sentence) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!status_.ok()) return;
  status_ = status;
  snprintf(sentence_, sizeof sentence_, "%s", sentence);
}

Status FirstFailure::get() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_.ok() ? Status() : fail_with(status_.code(), sentence_);
}

}  // namespace gq
