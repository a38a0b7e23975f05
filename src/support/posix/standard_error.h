// Standard error, written to only where the environment has GQSGD_LOG.
#ifndef GQ_SUPPORT_POSIX_STANDARD_ERROR_H
#define GQ_SUPPORT_POSIX_STANDARD_ERROR_H

#include "include/gqsgd_log.h"

namespace gq {

/** Writes "host:process:thread gqsgd LEVEL line" with one write(2), so that lines of several
 *  threads and processes stay whole. A failure is ignored; no signal comes of it. */
void write_to_standard_error(gqsgd_log_level level, const char* line);

}  // namespace gq

#endif
