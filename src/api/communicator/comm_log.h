// Lines of the log about a communicator: its making, its end, and options without effect.
#ifndef GQ_API_COMMUNICATOR_COMM_LOG_H
#define GQ_API_COMMUNICATOR_COMM_LOG_H

#include "src/api/communicator/communicator.h"

namespace gq {

/** `token` is its handle, by which the log names it where its transport has no tag. */
void name_in_log(Communicator* communicator, uintptr_t token);

void log_created(const Communicator& communicator, const CommOptions& options);

/** With the totals of all its calls. */
void log_destroyed(const Communicator& communicator);

}  // namespace gq

#endif
