// What a rank sleeps on: one word that its peers raise when they have something for it. Nothing of
// what they have is told here.
#ifndef GQ_TRANSPORT_SHARED_MEMORY_BELL_H
#define GQ_TRANSPORT_SHARED_MEMORY_BELL_H

#include <stdint.h>

#include <atomic>

namespace gq {

// Words that other processes see must not hide a lock of this one.
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

/** The only memory of a rank that its peers write. All zero at the start. */
struct alignas(64) Bell {
  std::atomic<uint32_t> rings{0};   ///< raised for every message, header and alarm
  std::atomic<uint32_t> alarms{0};  ///< raised when a peer has left or broken off
  std::atomic<uint32_t> asleep{0};  ///< set by the owner: only then a ring costs a system call
};

/** Who may ring: threads of this process, or processes of this machine. */
enum class BellScope { process, machine };

void ring(Bell* bell, BellScope scope);

/** ring() that makes the owner look for the reason. */
void sound_alarm(Bell* bell, BellScope scope);

/** Sleeps while bell->rings equals `seen`, for `timeout_us` at most; signals end it early. */
void sleep_on(Bell* bell, uint32_t seen, uint32_t timeout_us, BellScope scope);

}  // namespace gq

#endif
