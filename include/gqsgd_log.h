/* What the library does, line by line: for people who look for the reason of a time or an error.
 *
 * With GQSGD_LOG=warn, info or trace in the environment lines go to standard error. A program that
 * wants them elsewhere gives a callback. Without either there are none. */
#ifndef GQSGD_LOG_H
#define GQSGD_LOG_H

#include "gqsgd.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum GQSGD_ENUM_TYPE {
  GQSGD_LOG_NONE = 0,
  GQSGD_LOG_WARN = 1,  /**< malformed GQSGD_* environment variables, for example */
  GQSGD_LOG_INFO = 2,  /**< a line per communicator and per new kind of call */
  GQSGD_LOG_TRACE = 3, /**< a line per call */
  GQSGD_LOG_LEVEL_MAX_ = INT32_MAX
} gqsgd_log_level;

/** Receives one line, without a newline, on the thread that logs. It must not call this library. */
typedef void (*gqsgd_log_callback)(void *user, gqsgd_log_level level, const char *line);

/** Sends lines up to `level` to `callback`, for the whole process; NULL restores the default:
 *  standard error if the environment has GQSGD_LOG=warn, info or trace, else nowhere. */
void gqsgd_set_log(gqsgd_log_level level, gqsgd_log_callback callback, void *user);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
