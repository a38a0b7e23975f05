// Time for deadlines and measurements: monotonic, so that setting the clock or suspending the
// machine ends no wait.
#ifndef GQ_SUPPORT_CLOCK_H
#define GQ_SUPPORT_CLOCK_H

#include <stdint.h>
#include <time.h>

namespace gq {

/** A deadline that never comes. */
inline constexpr uint64_t kNever = UINT64_MAX;

inline uint64_t monotonic_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

/** What measurements read: the monotonic clock, or one that a test gives. */
struct Clock {
  uint64_t (*function)(void* user) = nullptr;
  void* user = nullptr;

  uint64_t now_ns() const { return function == nullptr ? monotonic_ns() : function(user); }
};

inline uint64_t monotonic_us() { return monotonic_ns() / 1000; }

/** `timeout_ms` from now; negative is kNever. */
inline uint64_t deadline_after_ms(int64_t timeout_ms) {
  const uint64_t now_us = monotonic_us();
  if (timeout_ms < 0) return kNever;
  const uint64_t wait_ms = static_cast<uint64_t>(timeout_ms);
  return wait_ms > (kNever - 1 - now_us) / 1000 ? kNever : now_us + wait_ms * 1000;
}

/** Milliseconds until `deadline_us` for poll(), rounded up; at most `most_ms`. */
inline int poll_ms_until(uint64_t deadline_us, int most_ms) {
  const uint64_t now_us = monotonic_us();
  if (deadline_us <= now_us) return 0;
  const uint64_t left_ms = (deadline_us - now_us - 1) / 1000 + 1;
  return left_ms < static_cast<uint64_t>(most_ms) ? static_cast<int>(left_ms) : most_ms;
}

}  // namespace gq

#endif
