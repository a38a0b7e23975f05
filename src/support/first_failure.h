// The failure that broke something, kept with its sentence: whoever comes later is told the same.
#ifndef GQ_SUPPORT_FIRST_FAILURE_H
#define GQ_SUPPORT_FIRST_FAILURE_H

#include <mutex>

#include "src/support/status.h"

namespace gq {

class FirstFailure {
 public:
  /** Keeps `status` and its sentence unless there is a failure already. From any thread. */
  void keep(Status status, const char* sentence);
  /** OK, or the first failure again, as this thread's last error. */
  Status get();

 private:
  std::mutex mutex_;
  Status status_;
  char sentence_[kSentenceBytes] = "";
};

}  // namespace gq

#endif
