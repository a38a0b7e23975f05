// A buffer between canaries, at any element offset from the begin of a cache line.
#ifndef GQ_TESTS_UNIT_KERNELS_SUPPORT_GUARDED_H
#define GQ_TESTS_UNIT_KERNELS_SUPPORT_GUARDED_H

#include <string.h>

#include <vector>

#include "bench/line_allocator.h"

namespace gq::test {

template <typename Element>
class Guarded {
 public:
  Guarded(size_t count, size_t offset)
      : count_(count), begin_(kCanaries + offset), memory_(kCanaries + offset + count + kCanaries) {
    memset(memory_.data(), 0xCA, memory_.size() * sizeof(Element));
  }
  Guarded(const std::vector<Element>& values, size_t offset) : Guarded(values.size(), offset) {
    if (count_ > 0) memcpy(data(), values.data(), count_ * sizeof(Element));
  }

  Element* data() { return memory_.data() + begin_; }
  std::vector<Element> values() const {
    return {memory_.begin() + static_cast<ptrdiff_t>(begin_),
            memory_.begin() + static_cast<ptrdiff_t>(begin_ + count_)};
  }
  bool intact() const {
    Element canary;
    memset(&canary, 0xCA, sizeof canary);
    for (size_t k = 0; k < memory_.size(); ++k) {
      const bool inside = k >= begin_ && k < begin_ + count_;
      if (!inside && memcmp(&memory_[k], &canary, sizeof canary) != 0) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kCanaries = 64;  // whole lines
  size_t count_;
  size_t begin_;
  bench::LineVector<Element> memory_;
};

}  // namespace gq::test

#endif
