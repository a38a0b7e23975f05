// AUTO becomes a schedule here, from what all ranks agree on.
#ifndef GQ_CALL_AUTO_SCHEDULE_H
#define GQ_CALL_AUTO_SCHEDULE_H

#include "src/execute/endpoint.h"

namespace gq {

/** What AUTO is asked about a call on host memory, or over NCCL, which adds. */
CostQuestion cost_question(const Endpoint& endpoint, const Call& call);

/** The call's schedule, if it is AUTO, and its format, if floats are sent in place of its codes.
 *  The control message has the requested format and the choice: a rank that chose otherwise is
 *  found before anything moves. On streams of a group that works on host memory as well AUTO is
 *  direct: constants know nothing of its copies and kernels. */
Status resolve_auto(Endpoint& endpoint, Call* call);

}  // namespace gq

#endif
