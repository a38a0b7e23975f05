// Requests on streams: calls that are enqueued at once, and whose end is tested later.
#ifndef GQ_GPU_ENQUEUE_STREAM_REQUESTS_H
#define GQ_GPU_ENQUEUE_STREAM_REQUESTS_H

#include <memory>

#include "src/gpu/enqueue/pending_operations.h"
#include "src/gpu/enqueue/stream_group.h"

namespace gq {

class StreamRequests {
 public:
  explicit StreamRequests(StreamGroup* group) : group_(*group) {}

  /** What the call of a request needs; *pending stays null after a failure. */
  Status take(std::unique_ptr<PendingOperation>* pending) {
    return pending_.take(group_.device(), pending);
  }
  /** The call of `request` was enqueued, or not: `made`. Ends the request if it was not. `pending`
   *  may be null then. */
  void begin(std::shared_ptr<Request> request, std::unique_ptr<PendingOperation> pending,
             Status made);

  /** True once `request` has ended. Never sleeps. */
  bool test(const Request& request);
  /** Returns when it has; TIMEOUT, which breaks the group, is an end as well. */
  void wait(const Request& request);

  /** All end as their streams have passed them. */
  void end_passed();
  /** All end with this status. */
  void end_all(Status status);
  /** Leaves memory to a device that may still write to it. */
  void forget() { pending_.forget(); }

 private:
  Status check_progress(PendingOperation* pending);
  Status outcome_of(const PendingOperation& pending);
  Status wait_for_stream(const PendingOperation& pending);

  StreamGroup& group_;
  PendingOperations pending_;
};

}  // namespace gq

#endif
