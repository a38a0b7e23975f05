// What this rank waits for, and when its peers are to learn that.
#ifndef GQ_TRANSPORT_NETWORK_AWAITED_REPORT_H
#define GQ_TRANSPORT_NETWORK_AWAITED_REPORT_H

#include <stdint.h>

#include "src/transport/shared_memory/awaited.h"

namespace gq {

class AwaitedReport {
 public:
  /** What the last question found missing. */
  void begin(const Awaited& awaited) { awaited_ = pack(awaited); }
  /** It has come. True if peers have learned that it was awaited. */
  bool end() {
    awaited_ = 0;
    const bool was_reported = reported_ != 0;
    reported_ = 0;
    return was_reported;
  }
  /** True when the same has been awaited for so long that peers are to learn it, and again after
   *  twice that, four times that: a rank that says nothing more is stopped, and a connection that
   *  acknowledges nothing more is cut. Called while this rank waits. */
  bool is_due(uint64_t now_us) {
    if (awaited_ != blocked_on_) {
      blocked_on_ = awaited_;
      blocked_us_ = now_us;
      due_us_ = kReportUs;
    }
    if (awaited_ == 0 || now_us - blocked_us_ < due_us_) return false;
    due_us_ = 2 * (now_us - blocked_us_);
    reported_ = awaited_;
    return true;
  }
  /** Packed. */
  uint64_t word() const { return awaited_; }

 private:
  static constexpr uint64_t kReportUs = 20000;

  uint64_t awaited_ = 0;
  uint64_t blocked_on_ = 0;  // the same, since blocked_us_
  uint64_t blocked_us_ = 0;
  uint64_t due_us_ = 0;    // after that time the next report
  uint64_t reported_ = 0;  // the same, as the peers know it
};

}  // namespace gq

#endif
