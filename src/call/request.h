// One nonblocking call, and how it ended.
#ifndef GQ_CALL_REQUEST_H
#define GQ_CALL_REQUEST_H

#include <stdio.h>

#include <atomic>
#include <memory>

#include "src/execute/endpoint.h"

namespace gq {

class Request {
 public:
  /** `own` is this rank's refusal of the call, whose sentence is this thread's last error. */
  void set(const Call& call, Status own) {
    call_ = call;
    keep(own);
  }

  const Call& call() const { return call_; }
  /** The refusal, or how the call ended, with its sentence as this thread's last error. */
  Status status() const { return status_.ok() ? Status() : fail_with(status_.code(), sentence_); }

  void end(Status status) {
    keep(status);
    ended_.store(true, std::memory_order_release);
  }
  bool has_ended() const { return ended_.load(std::memory_order_acquire); }

 private:
  friend class RequestQueue;

  void keep(Status status) {
    status_ = status;
    if (!status.ok()) snprintf(sentence_, sizeof sentence_, "%s", last_error());
  }

  Call call_;
  Status status_;
  char sentence_[kSentenceBytes];  // of a failure
  std::atomic<bool> ended_{false};
  std::shared_ptr<Request> next_;  // in the queue
};

}  // namespace gq

#endif
