// Addresses of ranks: how they are found, written and sent.
#ifndef GQ_TRANSPORT_NETWORK_NETWORK_ADDRESS_H
#define GQ_TRANSPORT_NETWORK_NETWORK_ADDRESS_H

#include <stdint.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "src/support/status.h"

namespace gq {

/** IPv4 or IPv6 address and port, as ranks send it to each other. */
struct NetworkAddress {
  uint16_t family = 0;  ///< AF_INET, AF_INET6, or 0 for none
  uint16_t port = 0;
  unsigned char bytes[16] = {};  ///< of IPv4 the first 4

  bool is_loopback() const;
};
static_assert(sizeof(NetworkAddress) == 20);

/** "10.0.0.1:29600" or "[fe80::1]:29600". */
class AddressText {
 public:
  explicit AddressText(const NetworkAddress& address);
  /** Valid while this object is. */
  const char* text() const { return text_; }

 private:
  char text_[64];
};

struct SocketName {
  sockaddr_storage storage;
  socklen_t size_bytes;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
SocketName socket_name_of(const NetworkAddress& address);
/** family 0 for what is neither IPv4 nor IPv6; AF_INET for an address of IPv4 that a socket of IPv6
 *  has. */
NetworkAddress address_of(const sockaddr* name);

/** The ends of a connected socket; family 0 if the system does not say. */
NetworkAddress local_address(int socket);

/** All addresses of a host name, or of a literal address, at least one. INVALID_ARGUMENT if it has
 *  none; `meaning` is what gave the name: "MASTER_ADDR". */
Status resolve_host(const char* host, uint16_t port, const char* meaning,
                    std::vector<NetworkAddress>* out);

/** False for IPv6 where the kernel has none, and a host name may have an address of it. */
bool has_sockets_of(uint16_t family);

/** What a user has given as the address of this process; either may be empty. */
struct AddressChoice {
  const char* interface = "";
  const char* address = "";
};

/** The address that `choice` names, with port 0; without a choice the first interface that is up,
 *  loopback last. INVALID_ARGUMENT names what is there. */
Status find_own_address(const AddressChoice& choice, NetworkAddress* out);

/** The interfaces by which packets to `hosts`, addresses of this machine among them, leave: "eth0".
 *  None where that is the loopback device alone. */
Status find_interfaces_to(const std::vector<NetworkAddress>& hosts,
                          std::vector<std::string>* names);

}  // namespace gq

#endif
