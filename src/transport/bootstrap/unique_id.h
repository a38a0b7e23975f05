// The id of a group that is about to form: the name of its socket and the secret that admits a
// rank.
#ifndef GQ_TRANSPORT_BOOTSTRAP_UNIQUE_ID_H
#define GQ_TRANSPORT_BOOTSTRAP_UNIQUE_ID_H

#include <stdint.h>

#include "src/support/status.h"

namespace gq {

struct UniqueId {
  uint32_t magic;
  uint32_t version;
  unsigned char name[16];
  unsigned char secret[32];
  unsigned char reserved[200];  ///< 0
};
static_assert(sizeof(UniqueId) == sizeof(gqsgd_unique_id));

Status make_unique_id(gqsgd_unique_id* out);

/** INVALID_ARGUMENT for bytes that make_unique_id did not make; VERSION for another layout. */
Status read_unique_id(const gqsgd_unique_id& bytes, UniqueId* out);

}  // namespace gq

#endif
