// Lines about what the library does: to the callback of gqsgd_set_log, or to standard error where
// GQSGD_LOG asks for them. Where neither does, a line costs one relaxed load.
#ifndef GQ_SUPPORT_LOG_H
#define GQ_SUPPORT_LOG_H

#include <stdint.h>

#include <atomic>

#include "include/gqsgd_log.h"

namespace gq {

/** The rank that a line is about, and its communicator by a number equal on all ranks. */
struct LogSubject {
  uint32_t tag = 0;
  uint32_t rank = 0;
};

/** The last level that goes anywhere; kLevelUnread until the environment is read. */
inline constexpr int32_t kLevelUnread = INT32_MAX;
extern std::atomic<int32_t> last_logged_level;
int32_t read_logged_level();

/** Whether lines of `level` go anywhere: to be asked before anything is computed for one. */
inline bool is_logged(gqsgd_log_level level) {
  const int32_t last = last_logged_level.load(std::memory_order_relaxed);
  return static_cast<int32_t>(level) <= (last == kLevelUnread ? read_logged_level() : last);
}

void set_log(gqsgd_log_level level, gqsgd_log_callback callback, void* user);

/** One line (printf's format) of the process; nothing where the level is not logged. */
[[gnu::format(printf, 2, 3)]] void log_line(gqsgd_log_level level, const char* format, ...);

/** The same about one rank: "comm 1a2b3c4d rank 2: ...". */
[[gnu::format(printf, 3, 4)]] void log_line(gqsgd_log_level level, LogSubject subject,
                                            const char* format, ...);

}  // namespace gq

#endif
