// A thread of the library's own, which receives no signal of the program.
#ifndef GQ_SUPPORT_POSIX_QUIET_THREAD_H
#define GQ_SUPPORT_POSIX_QUIET_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "src/support/status.h"

namespace gq {

class QuietThread {
 public:
  QuietThread() = default;
  QuietThread(const QuietThread&) = delete;
  QuietThread& operator=(const QuietThread&) = delete;

  /** Runs body(argument) for rank `rank`. NO_RESOURCE if the system has no thread to give: "no
   *  thread `purpose`". */
  Status begin(void* (*body)(void*), void* argument, uint32_t rank, const char* purpose);
  bool is_there() const { return is_there_; }
  /** Returns when body has; at once if there is no thread. */
  void join();

 private:
  pthread_t thread_{};
  bool is_there_ = false;
};

}  // namespace gq

#endif
