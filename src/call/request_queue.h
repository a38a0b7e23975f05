// The requests of one communicator, in order of their start, and the thread that runs them: a
// thread that sleeps while there is nothing to do, or, where a transport may only be called on the
// caller's threads, the thread that tests or waits.
#ifndef GQ_CALL_REQUEST_QUEUE_H
#define GQ_CALL_REQUEST_QUEUE_H

#include <condition_variable>
#include <memory>
#include <mutex>

#include "src/call/progress_loop.h"
#include "src/call/request.h"
#include "src/support/posix/quiet_thread.h"

namespace gq {

/** All members but close() are called by one thread at a time, the one inside the communicator. */
class RequestQueue {
 public:
  explicit RequestQueue(Endpoint* endpoint) : endpoint_(endpoint) {}
  ~RequestQueue() { close(); }
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  /** Appends a request. After a failure (no thread could be made, or the communicator is being
   *  destroyed) it is not in the queue. */
  Status start(std::shared_ptr<Request> request);

  /** True once `request`, which was started here, has ended. Never sleeps. */
  bool test(const Request& request);
  /** Returns when it has. */
  void wait(const Request& request);
  /** Makes progress on a caller's thread, without sleeping. */
  void look() { progress(nullptr, false); }
  bool is_empty();
  /** Returns when every request has. */
  void drain();

  /** Returns when every request has ended: the calling thread may make a call. ABORTED once the
   *  queue has closed. */
  Status await_turn();

  /** Ends what is in flight with ABORTED, waiting for no other rank: from any thread, once. */
  void close();

 private:
  /** Under the mutex: ABORTED once the queue has closed. */
  Status check_open() const;
  static void* work_on(void* queue);
  void work();
  void progress(const Request* until, bool may_sleep);
  bool progress_first(bool may_sleep);
  void finish_first(Status status);

  Endpoint* endpoint_;
  std::mutex mutex_;
  std::condition_variable work_;   // something was started, or the queue is closing
  std::condition_variable ended_;  // a request has ended
  // All under the mutex.
  std::shared_ptr<Request> first_;
  Request* last_ = nullptr;
  bool driven_ = false;  // a caller's thread is at the first request
  bool closing_ = false;
  QuietThread thread_;
  // Of the caller's thread that drives.
  ProgressLoop loop_;
};

}  // namespace gq

#endif
