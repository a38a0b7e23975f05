// The table of statuses in words, and the thread's last error.
#include "src/support/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

namespace gq {
namespace {

thread_local char sentence[kSentenceBytes];

// Not null: the last error in place of `sentence`. Thread-local memory of a library that was loaded
// late is made at its first use, by malloc, which a signal handler may have interrupted; that of
// this model is there when the library is.
[[gnu::tls_model("initial-exec")]] thread_local const char* literal_sentence = nullptr;

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
  literal_sentence = nullptr;
  return Status(code);
}

void fail_in_signal_handler(const char* literal) { literal_sentence = literal; }

const char* last_error() { return literal_sentence == nullptr ? sentence : literal_sentence; }

Status fail_with(gqsgd_status code, const char* text) { return fail(code, "%s", text); }

}  // namespace gq
