// The failure that broke something: every later call returns the same.
#ifndef GQ_SUPPORT_FIRST_FAILURE_H
#define GQ_SUPPORT_FIRST_FAILURE_H

#include <stdint.h>

#include <atomic>
#include <mutex>

#include "src/support/log.h"
#include "src/support/status.h"

namespace gq {

class FirstFailure {
 public:
  /** Whose failure it is, for the line that is logged with it. */
  void set_subject(LogSubject subject) { subject_ = subject; }
  /** Keeps `status` unless there is a failure already. From any thread. */
  void keep(Status status);
  /** The same for an abort by rank `rank`, also in a signal handler: no lock, no sentence yet. */
  void keep_abort(uint32_t rank) {
    uint64_t none = 0;
    aborter_.compare_exchange_strong(none, uint64_t{rank} + 1, std::memory_order_release);
  }
  /** OK, or the first failure. */
  Status get();

  /** True once there was an abort, whether it is the first failure or not. */
  bool was_abort() const { return aborter_.load(std::memory_order_acquire) != 0; }

 private:
  bool keep_locked(Status status);
  bool settle_abort();
  void log() const;

  static_assert(std::atomic<uint64_t>::is_always_lock_free, "for signal handlers");
  std::atomic<uint64_t> aborter_{0};  // rank + 1
  std::atomic<bool> broken_{false};   // status_ is a failure
  std::mutex mutex_;
  LogSubject subject_;
  Status status_;
};

}  // namespace gq

#endif
