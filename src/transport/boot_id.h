// What tells one machine from another: ranks that find the same are on one node.
#ifndef GQ_TRANSPORT_BOOT_ID_H
#define GQ_TRANSPORT_BOOT_ID_H

#include <stddef.h>

namespace gq {

/** The kernel's random number of this boot, which containers of a machine share; `otherwise` where
 *  it cannot be read. */
void read_boot_id(const char* otherwise, char* text, size_t capacity_bytes);

}  // namespace gq

#endif
