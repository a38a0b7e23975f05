// What is left of a group that has failed: one register per rank, written by its owner and read by
// all, and evidence of who is gone. src/survivors says what the words mean.
#ifndef GQ_TRANSPORT_REGISTERS_H
#define GQ_TRANSPORT_REGISTERS_H

#include <stddef.h>
#include <stdint.h>

#include "src/support/status.h"

namespace gq {

inline constexpr size_t kRegisterWords = 128;

struct RegisterWords {
  uint64_t words[kRegisterWords] = {};
};

/** A connection that is reset shows that its peer has gone, unless nothing had come of the peer's
 *  system for so long: then the peer may have gone on without this rank and closed its end in good
 *  order, and a link that was cut may have lost that. */
struct UnheardLimits {
  uint64_t absent_us = UINT64_MAX;   ///< of a peer without a register
  uint64_t entered_us = UINT64_MAX;  ///< of one with a register, which says something all the time
};

/** Works in a group that is broken, and does not depend on what broke it. Called by one thread at a
 *  time. */
class GroupRegisters {
 public:
  virtual ~GroupRegisters() = default;

  /** Shows the peers this rank's register: in the end they see the newest one, and may miss others.
   *  `is_last`: there is none after it, and peers see it also if this rank leaves at once. */
  virtual void publish(const RegisterWords& own, bool is_last) = 0;
  /** The newest of `peer` that has come; false if there is none. */
  virtual bool read(uint32_t peer, RegisterWords* found) = 0;
  /** True if the kernel, or the peer itself, has shown that it never acts in this group again. What
   *  it had published before is read after that. */
  virtual bool is_gone(uint32_t peer, const UnheardLimits& limits) = 0;
  /** Returns when a register or a death may have come, at most about `slice_us` later. */
  virtual void look(uint32_t slice_us) = 0;

  /** A fresh name of a group of the same kind, in which this rank would be rank 0. */
  virtual Status make_name(gqsgd_unique_id* name) = 0;
  /** Of one that is not used, or has been. */
  virtual void drop_name(const gqsgd_unique_id& /*name*/) {}
};

}  // namespace gq

#endif
