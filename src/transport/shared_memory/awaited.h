// What a rank is waiting for, packed so that peers can follow who waits for whom.
#ifndef GQ_TRANSPORT_SHARED_MEMORY_AWAITED_H
#define GQ_TRANSPORT_SHARED_MEMORY_AWAITED_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "src/transport/shared_memory/control.h"

namespace gq {

enum class AwaitedKind : uint64_t { nothing = 0, control = 1, message = 2, taken = 3 };

/** The `number`-th control message or message of `peer`, or that `peer` takes what was sent to it.
 */
struct Awaited {
  AwaitedKind kind = AwaitedKind::nothing;
  uint32_t peer = 0;
  uint64_t number = 0;  ///< low 40 bits
};

inline constexpr uint64_t kAwaitedNumberMask = (uint64_t{1} << 40) - 1;

constexpr uint64_t pack(const Awaited& awaited) {
  return static_cast<uint64_t>(awaited.kind) | static_cast<uint64_t>(awaited.peer) << 2 |
         (awaited.number & kAwaitedNumberMask) << 24;
}

constexpr Awaited unpack_awaited(uint64_t word) {
  return {static_cast<AwaitedKind>(word & 3), static_cast<uint32_t>(word >> 2 & ((1u << 22) - 1)),
          word >> 24};
}

/** The end of a sentence: "; rank 1 awaited call 7 of rank 2", or "". */
struct AwaitedText {
  AwaitedText(const Awaited& awaited, uint32_t self) {
    if (awaited.kind == AwaitedKind::nothing) {
      text[0] = '\0';
    } else if (awaited.kind == AwaitedKind::taken) {
      snprintf(text, sizeof text, "; rank %u awaited that rank %u takes its codes", self,
               awaited.peer);
    } else {
      snprintf(text, sizeof text, "; rank %u awaited %s %" PRIu64 " of rank %u", self,
               awaited.kind == AwaitedKind::control ? "call" : "message", awaited.number,
               awaited.peer);
    }
  }
  char text[96];
};

/** True once what `receiver` waits for is there; `control` is the awaited peer's. */
inline bool has_come(const Awaited& awaited, const Control* control, uint32_t receiver) {
  uint64_t newest = 0;
  if (awaited.kind == AwaitedKind::control) {
    newest = control->controls_sent.load(std::memory_order_acquire);
  } else if (awaited.kind == AwaitedKind::message) {
    newest = posted_of(control)[receiver].load(std::memory_order_acquire);
  } else {
    return true;
  }
  // Numbers only grow, so the newest one is at most half the range behind or ahead.
  return ((newest - awaited.number) & kAwaitedNumberMask) <= kAwaitedNumberMask / 2;
}

}  // namespace gq

#endif
