// Ownership of one file descriptor, which a forked child does not keep.
#ifndef GQ_TRANSPORT_PROCESS_DESCRIPTOR_H
#define GQ_TRANSPORT_PROCESS_DESCRIPTOR_H

#include "src/support/posix/fork.h"

namespace gq {

/** -1 in a forked child. */
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) { reset(number); }

  int number() const { return guard_.number(); }
  bool is_open() const { return guard_.is_open(); }
  void reset(int number = -1) {
    if (is_open()) guard_.close_now();
    if (number < 0) return;
    ForkHold hold;
    attach(number);
  }
  /** Takes over a number that was made under the ForkHold that is still held; there is none yet. */
  void attach(int number) { guard_.attach(number); }

 private:
  ForkGuard guard_;
};

}  // namespace gq

#endif
