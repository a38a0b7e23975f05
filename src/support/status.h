// How a failure travels inside the library: a status that must be looked at, and the sentence of
// the last failure of this thread. No exceptions.
#ifndef GQ_SUPPORT_STATUS_H
#define GQ_SUPPORT_STATUS_H

#include <stddef.h>

#include "include/gqsgd.h"

namespace gq {

/** Enough for two paths or two described quantizers; longer sentences are cut. */
inline constexpr size_t kSentenceBytes = 1024;

/** A gqsgd_status that the compiler does not let one drop. */
class [[nodiscard]] Status {
 public:
  constexpr Status() = default;
  constexpr explicit Status(gqsgd_status code) : code_(code) {}
  constexpr bool ok() const { return code_ == GQSGD_OK; }
  constexpr gqsgd_status code() const { return code_; }

 private:
  gqsgd_status code_ = GQSGD_OK;
};

/** False for a number that is none of this library's statuses: another process may send any
 *  number. */
bool is_status(int64_t number);

/** Records the sentence (printf's format) as this thread's last error and returns its status. */
[[gnu::format(printf, 2, 3)]] Status fail(gqsgd_status code, const char* format, ...);

/** The same in a signal handler, which may have interrupted anything: nothing is formatted and no
 *  memory is made. */
void fail_in_signal_handler(const char* literal);

/** This thread's last error, and a way to set it to a sentence that was kept elsewhere. */
const char* last_error();
Status fail_with(gqsgd_status code, const char* sentence);

/** Returns from the calling function if `expression` failed. */
#define GQ_TRY(expression)                                                  \
  do {                                                                      \
    if (::gq::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

}  // namespace gq

#endif
