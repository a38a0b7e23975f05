// Ranks inside one process: threads that share memory, or virtual ranks that one thread advances
// one after the other.
#ifndef GQ_TRANSPORT_SHARED_MEMORY_LOCAL_H
#define GQ_TRANSPORT_SHARED_MEMORY_LOCAL_H

#include <stdint.h>

#include <memory>

#include "src/transport/host_transport.h"

namespace gq {

/** Every pair of ranks has a counter at either end, 32 bytes a pair: 2 GiB for this many. */
inline constexpr uint32_t kLocalRanksMax = 8192;

/** Makes `ranks` ends of one group, transports[0] for rank 0 and so on; each may be used and
 * destroyed by its own thread. INVALID_ARGUMENT or NO_MEMORY leave nothing behind. */
Status create_local(uint32_t ranks, std::unique_ptr<HostTransport>* transports);

/** The same for ranks that one thread advances one after the other. They can add by themselves, so
 *  that what an allreduce of MPI makes of codes is simulated. */
Status create_virtual(uint32_t ranks, std::unique_ptr<HostTransport>* transports);

}  // namespace gq

#endif
