// What a rank sleeps on: one word that its peers raise when they have something for it. It carries
// no data.
#ifndef GQ_TRANSPORT_SHARED_MEMORY_WAKEUP_H
#define GQ_TRANSPORT_SHARED_MEMORY_WAKEUP_H

#include <stdint.h>

#include <atomic>

namespace gq {

// Words that other processes see must not hide a lock of this one.
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

/** The only memory of a rank that its peers write. All zero at the start. */
struct alignas(64) Wakeup {
  std::atomic<uint32_t> count{0};     ///< raised for every message, control message and failure
  std::atomic<uint32_t> failures{0};  ///< raised when a peer has left or broken off
  std::atomic<uint32_t> asleep{0};    ///< set by the owner: only then waking costs a system call
};

/** Who may wake it: threads of this process, or processes of this machine. */
enum class WakeupScope { process, machine };

void wake(Wakeup* wakeup, WakeupScope scope);

/** wake() that makes the owner look for the reason. */
void wake_for_failure(Wakeup* wakeup, WakeupScope scope);

/** Sleeps while wakeup->count equals `seen`, for `timeout_us` at most; signals end it early. */
void sleep_on(Wakeup* wakeup, uint32_t seen, uint32_t timeout_us, WakeupScope scope);

}  // namespace gq

#endif
