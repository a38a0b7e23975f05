// Sleeping and waking with futexes. Both sides write their own word before they read the other's,
// in one total order: either the sleeper sees the ring, or the ringer sees the sleeper.
#include "src/transport/shared_memory/bell.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace gq {
namespace {

int operation(int base, BellScope scope) {
  return scope == BellScope::process ? base | FUTEX_PRIVATE_FLAG : base;
}

}  // namespace

void ring(Bell* bell, BellScope scope) {
  bell->rings.fetch_add(1, std::memory_order_seq_cst);
  if (bell->asleep.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, &bell->rings, operation(FUTEX_WAKE, scope), INT_MAX, nullptr, nullptr, 0);
}

void sound_alarm(Bell* bell, BellScope scope) {
  bell->alarms.fetch_add(1, std::memory_order_seq_cst);
  ring(bell, scope);
}

void sleep_on(Bell* bell, uint32_t seen, uint32_t timeout_us, BellScope scope) {
  const timespec timeout{static_cast<time_t>(timeout_us / 1000000),
                         static_cast<long>(timeout_us % 1000000) * 1000};
  bell->asleep.store(1, std::memory_order_seq_cst);
  // The kernel compares again under its lock; a wake between here and there is not lost.
  if (bell->rings.load(std::memory_order_seq_cst) == seen) {
    syscall(SYS_futex, &bell->rings, operation(FUTEX_WAIT, scope), seen, &timeout, nullptr, 0);
  }
  bell->asleep.store(0, std::memory_order_relaxed);
}

}  // namespace gq
