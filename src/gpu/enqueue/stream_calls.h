// Collectives that are enqueued on a caller's stream: what a communicator calls (docs/NCCL.md).
#ifndef GQ_GPU_ENQUEUE_STREAM_CALLS_H
#define GQ_GPU_ENQUEUE_STREAM_CALLS_H

#include <atomic>
#include <memory>

#include "src/gpu/enqueue/graph_capture.h"
#include "src/gpu/enqueue/stream_requests.h"

namespace gq {

class StreamCalls {
 public:
  /** `counter`: the step that the next call with none of its own takes. */
  StreamCalls(Endpoint* endpoint, StreamTransport* transport, std::atomic<uint64_t>* counter)
      : group_(endpoint, transport),
        workspace_(&group_),
        counter_(counter, &group_, &scratch_),
        requests_(&group_),
        executor_(&group_, &scratch_, &workspace_, &counter_),
        capture_(&group_, &workspace_, &counter_, &executor_) {}
  ~StreamCalls();
  StreamCalls(const StreamCalls&) = delete;
  StreamCalls& operator=(const StreamCalls&) = delete;

  /** Memory and events that do not depend on calls. */
  Status open();

  /** Enqueues one call on call.stream, or notifies the other ranks that this one refuses: `own` is
   *  its refusal. Waits on the host for the others' control messages where the call is not the one
   * that was expected. A failure of an earlier call, found since, is returned by this one, which is
   *  executed all the same: to refuse it would make it fail on other ranks, and so on for ever. One
   *  that fails by itself leaves it to the next. */
  Status run(const Call& call, Status own);

  /** Notifies the other ranks and returns `own`, or what broke the group. What an earlier call left
   *  to be found stays for the next one. */
  Status refuse(const Call& call, Status own);

  /** The same for a request, which ends when its stream is through with the call, or at once with
   *  what run() would return. What the device finds of it is its own: no later call returns it. */
  void start(std::shared_ptr<Request> request);
  /** True once `request`, which was started here, has ended. Never sleeps. */
  bool test(const Request& request) { return requests_.test(request); }
  /** Returns when it has; TIMEOUT, which breaks the group, is an end as well. */
  void wait(const Request& request) { requests_.wait(request); }

  /** Allocates workspace for calls of this plan. */
  Status reserve(PlanRequest request);

  /** What went wrong after a call had returned; stays until the next call reports it. */
  Status late_failure() const;
  /** What broke the group on a device, which no call has reported yet; from any thread. */
  Status broken_on_device() const;

  /** The step that the next call that counts takes. From the first capture on the device counts:
   *  a call counts when it is executed, a replay too. From any thread. */
  uint64_t counter() const { return counter_.get(); }
  bool counts_on_device() const { return counter_.is_on_device(); }
  /** Of a call on host memory, once the device counts: after all that was enqueued before. */
  Status take_step_on_host(uint64_t* step) { return counter_.take_on_host(step); }
  void set_counter(uint64_t step) { counter_.set(step); }

 private:
  Status make(const Call& call, Status own, Disagreement* found);
  void abandon();

  StreamGroup group_;
  Scratch scratch_;
  StreamWorkspace workspace_;
  StepCounter counter_;
  StreamRequests requests_;
  StreamExecutor executor_;  // after the memory that streams use
  GraphCapture capture_;
};

}  // namespace gq

#endif
