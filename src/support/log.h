// Where warnings go: the callback of gqsgd_set_log, or nowhere.
#ifndef GQ_SUPPORT_LOG_H
#define GQ_SUPPORT_LOG_H

#include "include/gqsgd_log.h"

namespace gq {

void set_log(gqsgd_log_level level, gqsgd_log_callback callback, void* user);

/** Gives one line (printf's format) to the callback, as a warning. */
[[gnu::format(printf, 1, 2)]] void log_line(const char* format, ...);

}  // namespace gq

#endif
