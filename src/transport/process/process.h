// Ranks that are processes of one user on one machine: sealed shared memory, read in place.
#ifndef GQ_TRANSPORT_PROCESS_PROCESS_H
#define GQ_TRANSPORT_PROCESS_PROCESS_H

#include <stdint.h>

#include <memory>

#include "src/transport/deadline.h"
#include "src/transport/host_transport.h"

namespace gq {

/** Joins the group named by `id` as rank `rank` of `size`; returns when all are there, at most
 * about `timeout_ms` later (-1: never gives up). Failures are the same on all ranks and leave
 * nothing behind: TIMEOUT "missing ranks: 2,5", MISMATCH "size: ..", VERSION, PEER_LOST,
 * REMOTE_ERROR; on this rank alone DUPLICATE_RANK, INVALID_ARGUMENT, NO_MEMORY, NO_RESOURCE,
 * SYSTEM. `own`: a failure that keeps this rank from joining; the others are told within a second,
 * and the caller gets it. */
Status create_process(const gqsgd_unique_id& id, uint32_t rank, uint32_t size,
                      const Deadline& deadline, std::unique_ptr<HostTransport>* out,
                      const Status& own = Status());
inline Status create_process(const gqsgd_unique_id& id, uint32_t rank, uint32_t size,
                             int64_t timeout_ms, std::unique_ptr<HostTransport>* out,
                             const Status& own = Status()) {
  return create_process(id, rank, size, Deadline(deadline_after_ms(timeout_ms)), out, own);
}

}  // namespace gq

#endif
