// What a rank gives its peers to be reached by: the address of its UCX worker, with what a peer
// checks before UCX reads it. UCX itself ends the process at some damaged addresses.
#ifndef GQ_TRANSPORT_UCX_UCX_ADDRESS_H
#define GQ_TRANSPORT_UCX_UCX_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "src/support/status.h"

namespace gq {

/** Stands before the address of the worker. */
struct UcxAddressHeader {
  uint32_t magic;
  uint16_t ucx_major, ucx_minor;
  uint32_t rank;
  uint32_t size_bytes;  ///< of the worker's address
  uint32_t paths;
  uint32_t unused;
  uint64_t checksum;  ///< of all other bytes
};
static_assert(sizeof(UcxAddressHeader) == 32);

/** What a rank's peers must know of its engine, and check. */
struct UcxEnd {
  uint32_t rank;
  uint32_t paths;  ///< to each peer
  unsigned ucx_major, ucx_minor;
};

/** Throws std::bad_alloc. */
std::vector<unsigned char> packed_ucx_address(const UcxEnd& own, const void* worker_address,
                                              size_t size_bytes);

/** OK if the bytes are the packed address of `peer`: then the worker's address begins behind the
 *  header, as long as that says. PROTOCOL if they are not, VERSION if the peer's UCX has another
 *  version number than this rank's: UCX promises no common protocol then. INVALID_ARGUMENT if it
 *  has another number of paths. */
Status check_ucx_address(uint32_t peer, const UcxEnd& own, const unsigned char* packed,
                         size_t size_bytes);

}  // namespace gq

#endif
