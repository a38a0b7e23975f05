// Last errors: a sentence for each thread, and a table for threads that failed in a signal handler.
#include "src/api/last_error.h"

#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

namespace gq {
namespace {

thread_local char sentence_of_thread[kSentenceBytes];

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

gqsgd_status to_caller(const Status& status) { return to_caller(status.code(), status.sentence()); }

gqsgd_status to_caller(gqsgd_status code, const char* sentence) {
  if (code == GQSGD_OK) return code;
  const size_t length = strnlen(sentence, kSentenceBytes - 1);
  memmove(sentence_of_thread, sentence, length);  // it may be the last error itself
  sentence_of_thread[length] = '\0';
  pid_t thread_id = own_thread_id();
  handler_failure_of(thread_id).thread_id.compare_exchange_strong(thread_id, 0);
  return code;
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
  if (failure.thread_id.load(std::memory_order_acquire) != thread_id) return sentence_of_thread;
  return failure.sentence.load(std::memory_order_relaxed);
}

}  // namespace gq
