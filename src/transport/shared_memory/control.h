// What a rank shows its peers: written by its owner alone, read by all. Memory layout only; the
// rules are in shared_memory_transport.h.
#ifndef GQ_TRANSPORT_SHARED_MEMORY_CONTROL_H
#define GQ_TRANSPORT_SHARED_MEMORY_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include <atomic>

#include "src/transport/control_message.h"
#include "src/transport/registers.h"
#include "src/transport/shared_memory/wakeup.h"

namespace gq {

/** Followed in memory by one counter of posted messages per rank. All zero at the start. */
struct alignas(64) Control {
  std::atomic<uint64_t> controls_sent{0};  ///< sequence of the newest control message
  std::atomic<uint64_t> cause{0};        ///< why the owner broke off (cause.h); 0 while it has not
  std::atomic<uint64_t> awaited{0};      ///< what the owner last slept for (awaited.h)
  std::atomic<uint64_t> arena_bytes{0};  ///< committed length of the owner's arena
  std::atomic<uint32_t> destroyed{0};    ///< 1 once the owner has left in good order

  /** Control messages by parity of their sequence: the slowest peer still reads one while the owner
   * writes the other. Words are atomic because a peer that breaks the protocol may read both. */
  alignas(64) std::atomic<uint32_t> control_words[2][kControlWordCount]{};

  /** The owner's register (registers.h) by parity of its number: an owner that dies while it writes
   *  one leaves the one before. */
  alignas(64) std::atomic<uint64_t> registers_written{0};
  std::atomic<uint64_t> register_words[2][kRegisterWords]{};
};

/** Messages that the owner has ever posted to each rank. */
inline std::atomic<uint64_t>* posted_of(Control* control) {
  return reinterpret_cast<std::atomic<uint64_t>*>(control + 1);
}
inline const std::atomic<uint64_t>* posted_of(const Control* control) {
  return reinterpret_cast<const std::atomic<uint64_t>*>(control + 1);
}

/** Size of a control block with its counters, whole cache lines. */
constexpr size_t control_bytes(uint32_t ranks) {
  return (sizeof(Control) + ranks * sizeof(std::atomic<uint64_t>) + 63) / 64 * 64;
}

/** Where a rank's wakeup and control block lie in the reader's address space. */
struct PeerControl {
  Wakeup* wakeup = nullptr;
  const Control* control = nullptr;
};

}  // namespace gq

#endif
