// Whether this process may open as many descriptors as a group needs: checked first, because a
// failure in the middle has a less helpful sentence.
#ifndef GQ_TRANSPORT_PROCESS_DESCRIPTOR_LIMIT_H
#define GQ_TRANSPORT_PROCESS_DESCRIPTOR_LIMIT_H

#include <stdint.h>

#include "src/support/status.h"

namespace gq {

/** NO_RESOURCE with all numbers if `needed` more descriptors do not fit the process' limit. */
Status check_descriptor_limit(uint32_t needed, uint32_t ranks);

}  // namespace gq

#endif
