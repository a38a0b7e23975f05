// A status with its sentence, for as long as other calls may replace this thread's last error.
#ifndef GQ_SUPPORT_KEPT_FAILURE_H
#define GQ_SUPPORT_KEPT_FAILURE_H

#include <stdio.h>

#include "src/support/status.h"

namespace gq {

class KeptFailure {
 public:
  /** The sentence of a failure is this thread's last error. */
  explicit KeptFailure(Status status) : status_(status) {
    snprintf(sentence_, sizeof sentence_, "%s", status.ok() ? "" : last_error());
  }

  bool ok() const { return status_.ok(); }
  /** The same again; a failure's sentence becomes this thread's last error. */
  Status again() const { return ok() ? Status() : fail_with(status_.code(), sentence_); }

 private:
  Status status_;
  char sentence_[kSentenceBytes];
};

}  // namespace gq

#endif
