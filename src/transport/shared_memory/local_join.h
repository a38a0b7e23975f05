// How threads of one process form a group when each joins by itself, as processes do: by an id.
#ifndef GQ_TRANSPORT_SHARED_MEMORY_LOCAL_JOIN_H
#define GQ_TRANSPORT_SHARED_MEMORY_LOCAL_JOIN_H

#include <stdint.h>

#include <memory>

#include "src/transport/deadline.h"
#include "src/transport/host_transport.h"

namespace gq {

Status make_local_id(gqsgd_unique_id* out);
bool is_local_id(const gqsgd_unique_id& unique_id);

/** Returns when `size` threads have joined, at most about `timeout_ms` later (-1: never gives up).
 *  `interrupt` ends it as the time does; it is asked under a lock of this function. The same on all
 *  that have joined: OK, TIMEOUT "missing ranks: 2,5", or MISMATCH of the size; on this one alone
 *  DUPLICATE_RANK, and NO_MEMORY, which the others are told. `own`: a failure that keeps this rank
 *  from joining; the others are told within a second (REMOTE_ERROR), and the caller gets it. An id
 *  is for one group. */
Status join_local(const gqsgd_unique_id& unique_id, uint32_t rank, uint32_t size,
                  int64_t timeout_ms, std::unique_ptr<HostTransport>* out,
                  Interrupt interrupt = {}, const Status& own = Status());

}  // namespace gq

#endif
