// Joining a group by an NCCL that may block: it has no deadline there, and no way out.
#ifndef GQ_TRANSPORT_NCCL_NCCL_JOIN_H
#define GQ_TRANSPORT_NCCL_NCCL_JOIN_H

#include <stdint.h>

#include <memory>

#include "src/gpu/device/device.h"
#include "src/transport/nccl/nccl_library.h"

namespace gq {

/** A rank's place in a group that forms, on the device `ordinal`. */
struct NcclPlace {
  nccl::Id id;
  int rank_count;
  int rank;
  int32_t ordinal;
  bool blocks;  ///< as wanted: NCCL_COMM_BLOCKING, a variable of NCCL's, overrides it
};

/** What NCCL returned and made. One that does not block writes `*comm` again when the group has
 *  formed. TIMEOUT if it had not returned by `deadline_us`: then its thread stays behind, and ends
 *  the communicator if the group forms after all. NO_RESOURCE if the system has no thread to give.
 */
Status join_aside(const Device& device, const NcclLibrary& library, const NcclPlace& place,
                  uint64_t deadline_us, const std::shared_ptr<nccl::Comm>& comm,
                  nccl::Result* result);

}  // namespace gq

#endif
