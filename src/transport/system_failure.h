// How a failed system call becomes a status and a sentence.
#ifndef GQ_TRANSPORT_SYSTEM_FAILURE_H
#define GQ_TRANSPORT_SYSTEM_FAILURE_H

#include "src/support/status.h"

namespace gq {

/** Makes a sentence of what was tried (printf's format) and why the system refused; descriptor and
 * memory limits are named with their numbers. NO_RESOURCE, NO_MEMORY or SYSTEM. */
[[gnu::format(printf, 2, 3)]] Status system_failure(int error, const char* format, ...);

}  // namespace gq

#endif
