// Which machine, and which part of it, this process runs on.
#ifndef GQ_TRANSPORT_NETWORK_BOOTSTRAP_HOST_IDENTITY_H
#define GQ_TRANSPORT_NETWORK_BOOTSTRAP_HOST_IDENTITY_H

#include "src/transport/network/network_messages.h"

namespace gq {

/** Fills user, node, system and host_name. `host_id`: ranks with equal ones are on one node; if it
 *  is empty, those of one boot of one machine are. */
Status identify_host(const Hmac& hmac, const char* host_id, NetworkMember* member);

/** True if the members can be a group of processes: one node, one network namespace, one user. */
bool is_process_group(const NetworkMember* members, uint32_t count);

}  // namespace gq

#endif
