// The counters of messages between a rank and each of its peers, in their control blocks.
#ifndef GQ_TRANSPORT_SHARED_MEMORY_SIGNALS_H
#define GQ_TRANSPORT_SHARED_MEMORY_SIGNALS_H

#include <stdint.h>

#include <memory>

#include "src/transport/shared_memory/group_failure.h"

namespace gq {

/** A counter going up by one is a signal: a message, whose range and place both ends know from the
 *  schedule, or a word from host to host in calls on streams. What is read from a peer's block is
 *  checked before it is used, and no rank reads back what it has written there itself: what is not
 *  possible is PROTOCOL, and names the rank in whose memory it stood. The counter's release and
 *  acquire make visible what was written before it; a chain of signals carries that on to ranks
 *  further down. */
class Signals {
 public:
  /** `failure` outlives these. */
  Status open(const ControlBlocks& blocks, GroupFailure* failure);

  Status post(uint32_t peer);
  /** Whether the next one of `peer` is there; if it is, it is taken. */
  Status take(uint32_t peer, bool* there);

 private:
  struct Peer {
    uint64_t posted = 0;  ///< to it
    uint64_t taken = 0;   ///< from it
  };

  ControlBlocks blocks_;
  GroupFailure* failure_ = nullptr;
  std::unique_ptr<Peer[]> peers_;
};

}  // namespace gq

#endif
