// One nonblocking call, and how it ended.
#ifndef GQ_CALL_REQUEST_H
#define GQ_CALL_REQUEST_H

#include <atomic>
#include <memory>
#include <utility>

#include "src/execute/endpoint.h"

namespace gq {

class Request {
 public:
  /** `own` is this rank's refusal of the call. */
  void set(const Call& call, Status own) {
    call_ = call;
    status_ = std::move(own);
  }

  const Call& call() const { return call_; }
  /** The refusal, or how the call ended. */
  const Status& status() const { return status_; }

  void end(Status status) {
    status_ = std::move(status);
    ended_.store(true, std::memory_order_release);
  }
  bool has_ended() const { return ended_.load(std::memory_order_acquire); }

 private:
  friend class RequestQueue;

  Call call_;
  Status status_;
  std::atomic<bool> ended_{false};
  std::shared_ptr<Request> next_;  // in the queue
};

}  // namespace gq

#endif
