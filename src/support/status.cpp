// The table of statuses in words, and the thread's last error.
#include "src/support/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

namespace gq {
namespace {

thread_local char sentence[kSentenceBytes];

/** The last error of a thread that failed in a signal handler. Thread-local memory is no place for
 *  it: of a library that was loaded late it is made at its first use, by malloc, which the handler
 *  may have interrupted; and static TLS (initial-exec) would keep dlopen from loading a build with
 *  CUDA, whose runtime has more of it than glibc sets aside. A thread may overwrite the entry of
 *  another, whose last error is then the one before: the sentences are literals, valid for ever. */
struct HandlerFailure {
  std::atomic<pid_t> thread_id{0};  // 0: none
  std::atomic<const char*> sentence{nullptr};
};
constexpr size_t kHandlerFailures = 64;
HandlerFailure handler_failures[kHandlerFailures];

pid_t own_thread_id() { return static_cast<pid_t>(syscall(SYS_gettid)); }

HandlerFailure& handler_failure_of(pid_t thread_id) {
  return handler_failures[static_cast<size_t>(thread_id) % kHandlerFailures];
}

}  // namespace

bool is_status(int64_t number) {
  switch (number) {
#define GQ_STATUS_CASE(name, number, meaning) case number:
    GQSGD_STATUS_TABLE(GQ_STATUS_CASE)
#undef GQ_STATUS_CASE
    return true;
    default:
      return false;
  }
}

Status fail(gqsgd_status code, const char* format, ...) {
  // Formatted aside first: an argument may be the last error itself.
  char text[kSentenceBytes];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  memcpy(sentence, text, sizeof text);
  pid_t thread_id = own_thread_id();
  handler_failure_of(thread_id).thread_id.compare_exchange_strong(thread_id, 0);
  return Status(code);
}

void fail_in_signal_handler(const char* literal) {
  const pid_t thread_id = own_thread_id();
  HandlerFailure& failure = handler_failure_of(thread_id);
  failure.sentence.store(literal, std::memory_order_relaxed);
  failure.thread_id.store(thread_id, std::memory_order_release);
}

const char* last_error() {
  const pid_t thread_id = own_thread_id();
  const HandlerFailure& failure = handler_failure_of(thread_id);
  if (failure.thread_id.load(std::memory_order_acquire) != thread_id) return sentence;
  return failure.sentence.load(std::memory_order_relaxed);
}

Status fail_with(gqsgd_status code, const char* text) { return fail(code, "%s", text); }

}  // namespace gq
