// The process-wide log: one of the library's few registries, guarded by mutexes.
#include "src/support/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "src/support/catch_all.h"
#include "src/support/immortal.h"
#include "src/support/posix/cancel_off.h"
#include "src/support/posix/standard_error.h"
#include "src/support/shown.h"
#include "src/support/status.h"

namespace gq {
namespace {

constexpr size_t kLineBytes = kSentenceBytes + 192;  // a failure's sentence, and whose it is

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

constexpr const char* kLevelList[] = {"none", "warn", "info", "trace"};

/** What GQSGD_LOG asks for; read once. */
std::atomic<int32_t> level_of_environment{kLevelUnread};

int32_t read_environment() {
  const int32_t known = level_of_environment.load(std::memory_order_relaxed);
  if (known != kLevelUnread) return known;
  const char* word = secure_getenv("GQSGD_LOG");
  int32_t level = GQSGD_LOG_NONE;
  bool is_malformed = word != nullptr && word[0] != '\0';
  for (int32_t k = GQSGD_LOG_NONE; is_malformed && k <= GQSGD_LOG_TRACE; ++k) {
    if (strcmp(word, kLevelList[k]) != 0) continue;
    level = k;
    is_malformed = false;
  }
  int32_t unread = kLevelUnread;
  const bool first = level_of_environment.compare_exchange_strong(unread, level);
  if (first && is_malformed) {
    char line[Shown::kTextBytes + 96];
    snprintf(line, sizeof line, "GQSGD_LOG=%s is not warn, info or trace; nothing is logged",
             Shown(word).text());
    write_to_standard_error(GQSGD_LOG_WARN, line);
  }
  return level;
}

/** Gives a line to where it goes. A callback's own call of the library would call it for ever. */
void emit(gqsgd_log_level level, const char* line) {
  const Turn turn;
  if (!turn.is_outer()) return;
  gqsgd_log_callback callback = nullptr;
  void* user = nullptr;
  {
    const std::lock_guard<std::mutex> lock(sink().mutex);
    callback = sink().callback;
    user = sink().user;
  }
  if (!is_logged(level)) return;  // set_log() was faster
  if (callback == nullptr) return write_to_standard_error(level, line);
  const CancelOff whole_lines;
  ThrownText unheard;  // a line has no call that could fail with it
  (void)throws([&] { callback(user, level, line); }, &unheard);
}

}  // namespace

std::atomic<int32_t> last_logged_level{kLevelUnread};

int32_t read_logged_level() {
  int32_t last = kLevelUnread;
  const int32_t level = read_environment();
  return last_logged_level.compare_exchange_strong(last, level) ? level : last;
}

void set_log(gqsgd_log_level level, gqsgd_log_callback callback, void* user) {
  const int32_t last = callback == nullptr
                           ? read_environment()
                           : std::clamp(static_cast<int32_t>(level), int32_t{GQSGD_LOG_NONE},
                                        int32_t{GQSGD_LOG_TRACE});
  const Turn turn;
  const std::lock_guard<std::mutex> lock(sink().mutex);
  sink().callback = callback;
  sink().user = user;
  last_logged_level.store(last, std::memory_order_relaxed);
}

void log_line(gqsgd_log_level level, const char* format, ...) {
  if (!is_logged(level)) return;
  char line[kLineBytes];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  emit(level, line);
}

void log_line(gqsgd_log_level level, LogSubject subject, const char* format, ...) {
  if (!is_logged(level)) return;
  char line[kLineBytes];
  const int used = snprintf(line, sizeof line, "comm %08x rank %u: ", subject.tag, subject.rank);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line + used, sizeof line - static_cast<size_t>(used), format, arguments);
  va_end(arguments);
  emit(level, line);
}

}  // namespace gq
