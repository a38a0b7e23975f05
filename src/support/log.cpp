// The process-wide log callback: one of the library's few registries, guarded by mutexes.
#include "src/support/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include <mutex>
#include <new>

#include "src/support/cancel_off.h"
#include "src/support/catch_all.h"
#include "src/support/immortal.h"
#include "src/support/status.h"

namespace gq {
namespace {

/** A callback may take long, or wait for what the thread that forks has (an interpreter's lock):
 *  fork() waits for `mutex` alone, and a child makes a new `calling`. */
struct Sink {
  Sink();

  std::mutex calling;  // held while the callback runs: after set_log() the old one does not
  std::mutex mutex;    // held for moments, of what follows
  gqsgd_log_callback callback = nullptr;
  void* user = nullptr;
};

thread_local bool is_calling = false;  // this thread is in the callback

Sink& sink() { return immortal<Sink>(); }

void before_fork() { sink().mutex.lock(); }
void after_fork_in_parent() { sink().mutex.unlock(); }
void after_fork_in_child() {
  sink().mutex.unlock();
  // The thread that held it is not in this process, unless it is the one that forks.
  if (!is_calling) new (&sink().calling) std::mutex;
}

Sink::Sink() { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

/** The right to call, for a scope; a thread that has it already keeps it. */
class Turn {
 public:
  Turn() : is_outer_(!is_calling) {
    if (is_outer_) sink().calling.lock();
    is_calling = true;
  }
  ~Turn() {
    if (!is_outer_) return;
    is_calling = false;
    sink().calling.unlock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  bool is_outer() const { return is_outer_; }

 private:
  bool is_outer_;
};

}  // namespace

void set_log(gqsgd_log_level level, gqsgd_log_callback callback, void* user) {
  const Turn turn;
  const std::lock_guard<std::mutex> lock(sink().mutex);
  sink().callback = level >= GQSGD_LOG_WARN ? callback : nullptr;
  sink().user = user;
}

void log_line(const char* format, ...) {
  char line[kSentenceBytes + 128];  // a failure's sentence, and whose it is
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  const Turn turn;
  if (!turn.is_outer()) return;  // a callback's own call of the library would call it for ever
  gqsgd_log_callback callback = nullptr;
  void* user = nullptr;
  {
    const std::lock_guard<std::mutex> lock(sink().mutex);
    callback = sink().callback;
    user = sink().user;
  }
  if (callback == nullptr) return;
  const CancelOff whole_lines;
  ThrownText unheard;  // a warning has no call that could fail with it
  (void)throws([&] { callback(user, GQSGD_LOG_WARN, line); }, &unheard);
}

}  // namespace gq
