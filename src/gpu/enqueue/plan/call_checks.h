// What calls on streams cannot do, and where their buffers have to be.
#ifndef GQ_GPU_ENQUEUE_PLAN_CALL_CHECKS_H
#define GQ_GPU_ENQUEUE_PLAN_CALL_CHECKS_H

#include "src/gpu/enqueue/stream_group.h"

namespace gq {

/** UNSUPPORTED for what streams do not do in this version; INVALID_ARGUMENT where a buffer is not
 *  in memory of the group's device. */
Status check_call(const StreamGroup& group, const Call& call);

/** UNSUPPORTED where the schedule needs sums that the transport does not make. */
Status check_sums(StreamTransport& transport, const Schedule& schedule);

/** UNSUPPORTED: the call is captured, and what it needs is not there. */
Status not_captured_yet(const Call& call, const char* why);

}  // namespace gq

#endif
