// Bytes that no one can guess, for names, secrets and tags; nothing that enters a result.
#ifndef GQ_TRANSPORT_BOOTSTRAP_RANDOM_BYTES_H
#define GQ_TRANSPORT_BOOTSTRAP_RANDOM_BYTES_H

#include <stddef.h>

#include "src/support/status.h"

namespace gq {

Status random_bytes(void* bytes, size_t size_bytes);

}  // namespace gq

#endif
