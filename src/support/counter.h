// A number that one thread counts up and others may read at any moment.
#ifndef GQ_SUPPORT_COUNTER_H
#define GQ_SUPPORT_COUNTER_H

#include <stdint.h>

#include <atomic>

namespace gq {

/** As cheap to write as a plain number: there is one writer at a time, so nothing is locked. */
class Counter {
 public:
  Counter() = default;
  Counter(const Counter& other) : value_(other) {}
  Counter& operator=(const Counter& other) { return *this = static_cast<uint64_t>(other); }
  Counter& operator=(uint64_t value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  Counter& operator+=(uint64_t more) { return *this = *this + more; }
  operator uint64_t() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace gq

#endif
