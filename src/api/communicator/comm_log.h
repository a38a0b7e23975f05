// Lines of the log about a communicator: its making, its end, and options without effect.
#ifndef GQ_API_COMMUNICATOR_COMM_LOG_H
#define GQ_API_COMMUNICATOR_COMM_LOG_H

#include "src/api/communicator/communicator.h"

namespace gq {

/** `token` is its handle, by which the log names it where its transport has no tag. */
void log_created(Communicator* communicator, const CommOptions& options, uintptr_t token);

/** With the totals of all its calls. */
void log_destroyed(const Communicator& communicator);

}  // namespace gq

#endif
