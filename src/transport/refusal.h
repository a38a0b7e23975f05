// What the others are told of a rank that cannot join a group.
#ifndef GQ_TRANSPORT_REFUSAL_H
#define GQ_TRANSPORT_REFUSAL_H

#include <stdint.h>

#include "src/support/status.h"

namespace gq {

/** So long a rank that cannot join tries to tell the others. */
inline constexpr int64_t kRefusalMs = 1000;

/** What they get of its own failure. */
inline Status could_not_join(uint32_t rank, gqsgd_status own) {
  return fail(GQSGD_REMOTE_ERROR, "rank %u could not join: %s (%s); see its own error", rank,
              gqsgd_status_name(own), gqsgd_status_string(own));
}

}  // namespace gq

#endif
