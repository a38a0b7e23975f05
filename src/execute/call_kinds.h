// Which kinds of calls of a communicator have been logged: a set of fixed size, so that a log of
// any length allocates nothing.
#ifndef GQ_EXECUTE_CALL_KINDS_H
#define GQ_EXECUTE_CALL_KINDS_H

#include <stddef.h>
#include <stdint.h>

namespace gq {

class CallKinds {
 public:
  // A model with hundreds of tensors makes a few dozen kinds of calls.
  static constexpr size_t kKindsMax = 128;

  enum class Seen { before, never, never_and_full };

  /** `digest` stands for the kind. Once the set is full, the first new kind is never_and_full, and
   *  later ones count as seen. */
  Seen add(uint64_t digest) {
    for (size_t k = 0; k < count_; ++k) {
      if (digests_[k] == digest) return Seen::before;
    }
    if (count_ < kKindsMax) {
      digests_[count_++] = digest;
      return Seen::never;
    }
    const bool first = !was_full_;
    was_full_ = true;
    return first ? Seen::never_and_full : Seen::before;
  }

 private:
  uint64_t digests_[kKindsMax];
  size_t count_ = 0;
  bool was_full_ = false;
};

}  // namespace gq

#endif
