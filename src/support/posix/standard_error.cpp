// One write per line, without the signal that a closed pipe sends.
#include "src/support/posix/standard_error.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "src/support/posix/cancel_off.h"
#include "src/support/status.h"

namespace gq {
namespace {

const char* name_of(gqsgd_log_level level) {
  if (level == GQSGD_LOG_WARN) return "WARN";
  return level == GQSGD_LOG_INFO ? "INFO" : "TRACE";
}

/** Holds SIGPIPE back: one that a write of this scope caused never arrives. */
class PipeSignalOff {
 public:
  PipeSignalOff() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeSignalOff() {
    const timespec now{};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  PipeSignalOff(const PipeSignalOff&) = delete;
  PipeSignalOff& operator=(const PipeSignalOff&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_;
};

}  // namespace

void write_to_standard_error(gqsgd_log_level level, const char* line) {
  const int caller_errno = errno;
  char host[65] = "";
  gethostname(host, sizeof host - 1);
  char bytes[kSentenceBytes + 384];
  const int size_bytes =
      snprintf(bytes, sizeof bytes, "%s:%d:%ld gqsgd %s %s", host, static_cast<int>(getpid()),
               syscall(SYS_gettid), name_of(level), line);
  const size_t end = std::min(static_cast<size_t>(size_bytes), sizeof bytes - 1);
  bytes[end] = '\n';
  {
    const CancelOff whole_line;
    const PipeSignalOff no_signal;
    while (write(STDERR_FILENO, bytes, end + 1) < 0 && errno == EINTR) {
    }
  }
  errno = caller_errno;
}

}  // namespace gq
