// When a wait ends: at a time, or earlier if the function of its owner says so.
#ifndef GQ_TRANSPORT_DEADLINE_H
#define GQ_TRANSPORT_DEADLINE_H

#include <algorithm>

#include "src/support/clock.h"

namespace gq {

/** What a wait asks now and then; true ends it. */
struct Interrupt {
  bool (*function)(void* user) = nullptr;  ///< null: nothing ends it early
  void* user = nullptr;
};

class Deadline {
 public:
  Deadline() = default;
  /** kNever waits for ever. */
  explicit Deadline(uint64_t end_us, Interrupt interrupt = {})
      : end_us_(end_us), interrupt_(interrupt) {}

  /** The time; 0 if the wait is over early. */
  uint64_t us() const {
    const bool ends = interrupt_.function != nullptr && interrupt_.function(interrupt_.user);
    return ends ? 0 : end_us_;
  }
  bool is_over() const { return monotonic_us() >= us(); }
  /** For poll(): until the time or `until_us`, at most `most_ms`, and not long where the owner has
   *  to be asked again. */
  int poll_ms(int most_ms, uint64_t until_us = kNever) const {
    if (interrupt_.function != nullptr) most_ms = std::min(most_ms, kAskMs);
    return poll_ms_until(std::min(us(), until_us), most_ms);
  }
  /** Until when a rank stays, after a failure of the group that forms, to tell those that still
   *  come. Not at all if the owner ends waits early: its ranks learn of failures otherwise. */
  uint64_t linger_end_us(int64_t linger_ms) const {
    return interrupt_.function != nullptr ? 0 : std::min(deadline_after_ms(linger_ms), end_us_);
  }
  Deadline later_by(uint64_t more_us) const {
    return Deadline(end_us_ >= kNever - more_us ? kNever : end_us_ + more_us, interrupt_);
  }

 private:
  static constexpr int kAskMs = 3;

  uint64_t end_us_ = 0;
  Interrupt interrupt_;
};

}  // namespace gq

#endif
