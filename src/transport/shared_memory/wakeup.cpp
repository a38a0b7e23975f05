// Sleeping and waking with futexes. Both sides write their own word before they read the other's,
// in one total order: either the sleeper sees the count, or the waker sees the sleeper.
#include "src/transport/shared_memory/wakeup.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace gq {
namespace {

int operation(int base, WakeupScope scope) {
  return scope == WakeupScope::process ? base | FUTEX_PRIVATE_FLAG : base;
}

}  // namespace

void wake(Wakeup* wakeup, WakeupScope scope) {
  wakeup->count.fetch_add(1, std::memory_order_seq_cst);
  if (wakeup->asleep.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, &wakeup->count, operation(FUTEX_WAKE, scope), INT_MAX, nullptr, nullptr, 0);
}

void wake_for_failure(Wakeup* wakeup, WakeupScope scope) {
  wakeup->failures.fetch_add(1, std::memory_order_seq_cst);
  wake(wakeup, scope);
}

void sleep_on(Wakeup* wakeup, uint32_t seen, uint32_t timeout_us, WakeupScope scope) {
  const timespec timeout{static_cast<time_t>(timeout_us / 1000000),
                         static_cast<long>(timeout_us % 1000000) * 1000};
  wakeup->asleep.store(1, std::memory_order_seq_cst);
  // The kernel compares again under its lock; a wake between here and there is not lost.
  if (wakeup->count.load(std::memory_order_seq_cst) == seen) {
    syscall(SYS_futex, &wakeup->count, operation(FUTEX_WAIT, scope), seen, &timeout, nullptr, 0);
  }
  wakeup->asleep.store(0, std::memory_order_relaxed);
}

}  // namespace gq
