// Counters that one thread increases and any thread may read at any moment: never half of one, and
// never less than the same thread read before.
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

/** For what is counted seldom: several threads may write at once, and nothing is lost. */
class SharedCounter {
 public:
  SharedCounter() = default;
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  void operator+=(uint64_t more) { value_.fetch_add(more, std::memory_order_relaxed); }
  /** The larger one stays. */
  void raise_to(uint64_t value) {
    uint64_t now = *this;
    while (now < value && !value_.compare_exchange_weak(now, value, std::memory_order_relaxed)) {
    }
  }
  operator uint64_t() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace gq

#endif
