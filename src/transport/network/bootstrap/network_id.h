// The id of a group between machines: address, name and secret; and the listeners of ids that this
// process has made.
#ifndef GQ_TRANSPORT_NETWORK_BOOTSTRAP_NETWORK_ID_H
#define GQ_TRANSPORT_NETWORK_BOOTSTRAP_NETWORK_ID_H

#include <memory>

#include "src/transport/network/hmac.h"
#include "src/transport/network/tcp_socket.h"

namespace gq {

struct NetworkId {
  uint32_t magic;
  uint32_t version;
  unsigned char name[16];
  Digest key;
  NetworkAddress address;
  unsigned char reserved[180];  ///< 0
};
static_assert(sizeof(NetworkId) == sizeof(gqsgd_unique_id));

/** Listens at `address`, and makes the id of the group that forms there. */
Status make_network_id(const NetworkAddress& address, gqsgd_unique_id* out);

/** True if make_network_id made it, as far as the first word tells. */
bool is_network_id(const gqsgd_unique_id& bytes);

/** INVALID_ARGUMENT for bytes that make_network_id did not make; VERSION for another layout. */
Status read_network_id(const gqsgd_unique_id& bytes, NetworkId* out);

/** The listener of an id that this process has made, once. INVALID_ARGUMENT in another process, or
 *  for an id that has been used. */
Status take_listener(const NetworkId& id, std::unique_ptr<TcpSocket>* out);

}  // namespace gq

#endif
