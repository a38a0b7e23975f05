// The sentence of a thread's last failure, for gqsgd_last_error. Only functions of the C ABI set
// it: inside the library a status carries its own.
#ifndef GQ_API_LAST_ERROR_H
#define GQ_API_LAST_ERROR_H

#include "src/support/status.h"

namespace gq {

/** What a function of the C ABI returns: the code of its status. The sentence of a failure becomes
 *  this thread's last error; OK leaves the last one as it is. */
gqsgd_status to_caller(const Status& status);

/** The same for a caller's own code and sentence. */
gqsgd_status to_caller(gqsgd_status code, const char* sentence);

/** Sets the last error in a signal handler, which may have interrupted anything: nothing is
 *  formatted and nothing allocated. */
void fail_in_signal_handler(const char* literal);

/** "" before the first failure. */
const char* last_error();

}  // namespace gq

#endif
