// The control blocks of a group as one rank has them in its address space.
#ifndef GQ_TRANSPORT_SHARED_MEMORY_CONTROL_BLOCKS_H
#define GQ_TRANSPORT_SHARED_MEMORY_CONTROL_BLOCKS_H

#include <stdint.h>

#include "src/transport/shared_memory/control.h"

namespace gq {

/** What it points to outlives all that use it. */
struct ControlBlocks {
  uint32_t rank = 0;  ///< the own one
  uint32_t ranks = 0;
  WakeupScope scope = WakeupScope::process;
  Control* own = nullptr;
  const PeerControl* all = nullptr;  ///< of all ranks, the own one included

  const Control& of(uint32_t peer) const { return *all[peer].control; }
  Wakeup* wakeup_of(uint32_t peer) const { return all[peer].wakeup; }
  Wakeup& wakeup() const { return *all[rank].wakeup; }
};

}  // namespace gq

#endif
