// How a failure travels inside the library: a status that must be looked at, and that carries its
// sentence. No exceptions, and nothing that a thread remembers.
#ifndef GQ_SUPPORT_STATUS_H
#define GQ_SUPPORT_STATUS_H

#include <stddef.h>

#include <atomic>
#include <utility>

#include "include/gqsgd.h"
#include "kernels/stage_error.h"

namespace gq {

/** Enough for two paths or two described quantizers; longer sentences are cut. */
inline constexpr size_t kSentenceBytes = 1024;

/** A code and its sentence, which no one changes. */
struct Failure {
  std::atomic<uint32_t> references;  ///< statuses that share it; 0 of one that is never freed
  gqsgd_status code;
  const char* sentence;
};

/** OK, which costs nothing, or a failure that copies share, on any threads. The compiler does not
 *  let one drop it. */
class [[nodiscard]] Status {
 public:
  constexpr Status() = default;
  /** What a stage returned: OK, BACKEND in CUDA's words, or INTERNAL. */
  explicit Status(const StageError& error)
      : failure_(failed(error) ? failure_of(error) : nullptr) {}
  ~Status() {
    if (failure_ != nullptr) release(failure_);
  }
  Status(const Status& other) : failure_(other.failure_) {
    if (failure_ != nullptr) share(failure_);
  }
  Status(Status&& other) noexcept : failure_(std::exchange(other.failure_, nullptr)) {}
  Status& operator=(Status other) noexcept {
    std::swap(failure_, other.failure_);
    return *this;
  }

  bool ok() const { return failure_ == nullptr; }
  gqsgd_status code() const { return ok() ? GQSGD_OK : failure_->code; }
  /** Empty if OK. Valid as long as this status or a copy of it. */
  const char* sentence() const { return ok() ? "" : failure_->sentence; }

 private:
  friend Status fail(gqsgd_status code, const char* format, ...);
  explicit Status(Failure* failure) : failure_(failure) {}

  static Failure* failure_of(const StageError& error);
  static void share(Failure* failure);
  static void release(Failure* failure);

  Failure* failure_ = nullptr;
};

/** False for a number that is none of this library's statuses: another process may send any
 *  number. */
bool is_status(int64_t number);

/** A failure with a sentence (printf's format). Never throws: without memory for the sentence it
 *  has a fixed one for its code. To add context, make a failure that quotes status.sentence(). */
[[gnu::format(printf, 2, 3)]] Status fail(gqsgd_status code, const char* format, ...);

/** Returns from the calling function if `expression` failed. */
#define GQ_TRY(expression)                                                  \
  do {                                                                      \
    if (::gq::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

}  // namespace gq

#endif
