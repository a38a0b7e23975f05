// Interfaces and names of hosts, asked of the system.
#include "src/transport/network/network_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <new>

#include "src/support/log.h"
#include "src/support/shown.h"
#include "src/transport/system_failure.h"

namespace gq {
namespace {

// Bridges that container engines make: other machines do not reach them.
constexpr const char* kBridges[] = {"docker", "virbr", "veth", "br-", "cni", "lxc", "podman"};

struct InterfacesDeleter {
  void operator()(ifaddrs* first) const { freeifaddrs(first); }
};
using Interfaces = std::unique_ptr<ifaddrs, InterfacesDeleter>;

Status read_interfaces(Interfaces* out) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return system_failure(errno, "reading the network interfaces");
  out->reset(first);
  return Status();
}

bool is_link_local(const NetworkAddress& address) {
  return address.family == AF_INET6 && address.bytes[0] == 0xfe &&
         (address.bytes[1] & 0xc0) == 0x80;
}

/** An address that this process can listen at and give to others; family 0 if it is none. */
NetworkAddress usable_address(const ifaddrs& interface) {
  if (interface.ifa_addr == nullptr || (interface.ifa_flags & IFF_UP) == 0) return {};
  NetworkAddress address = address_of(interface.ifa_addr);
  address.port = 0;
  return is_link_local(address) ? NetworkAddress() : address;
}

/** The lowest is taken: IPv4 before IPv6, bridges after others, loopback last. */
int rank_of(const ifaddrs& interface, const NetworkAddress& address) {
  int order = address.family == AF_INET ? 0 : 1;
  for (const char* bridge : kBridges) {
    if (strncmp(interface.ifa_name, bridge, strlen(bridge)) == 0) order += 2;
  }
  return (interface.ifa_flags & IFF_LOOPBACK) != 0 ? order + 100 : order;
}

/** "lo 127.0.0.1, eth0 10.0.0.1", as far as it fits. */
void list_interfaces(const ifaddrs* first, char* text, size_t capacity_bytes) {
  size_t used = 0;
  text[0] = '\0';
  for (const ifaddrs* next = first; next != nullptr; next = next->ifa_next) {
    const NetworkAddress address = usable_address(*next);
    if (address.family == 0) continue;
    const int length = snprintf(text + used, capacity_bytes - used, "%s%s %s",
                                used == 0 ? "" : ", ", next->ifa_name, AddressText(address).text());
    if (length < 0 || used + static_cast<size_t>(length) >= capacity_bytes) {
      text[used] = '\0';
      return;
    }
    used += static_cast<size_t>(length);
  }
}

Status find_interface(const char* name, NetworkAddress* out) {
  Interfaces interfaces;
  GQ_TRY(read_interfaces(&interfaces));
  int best = INT32_MAX;
  for (const ifaddrs* next = interfaces.get(); next != nullptr; next = next->ifa_next) {
    const NetworkAddress address = usable_address(*next);
    if (address.family == 0 || (name[0] != '\0' && strcmp(name, next->ifa_name) != 0)) continue;
    const int order = rank_of(*next, address);
    if (order >= best) continue;
    best = order;
    *out = address;
  }
  if (best != INT32_MAX) return Status();
  char there[300];
  list_interfaces(interfaces.get(), there, sizeof there);
  return fail(GQSGD_INVALID_ARGUMENT,
              "interface \"%s\" is not up here or has no address; there are: %s",
              Shown(name).text(), there);
}

bool same_host(const NetworkAddress& a, const NetworkAddress& b) {
  return a.family == b.family && memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;
}

bool is_own(const NetworkAddress& address, const ifaddrs* first) {
  if (address.is_loopback()) return true;
  for (const ifaddrs* next = first; next != nullptr; next = next->ifa_next) {
    if (same_host(address, usable_address(*next))) return true;
  }
  return false;
}

/** A literal address, or localhost: the caller means this machine alone. */
bool means_loopback(const char* host) {
  unsigned char bytes[16];
  return strcmp(host, "localhost") == 0 || inet_pton(AF_INET, host, bytes) == 1 ||
         inet_pton(AF_INET6, host, bytes) == 1;
}

Status find_named(const char* host, NetworkAddress* out) {
  std::vector<NetworkAddress> found;
  GQ_TRY(resolve_host(host, 0, "address", &found));
  Interfaces interfaces;
  GQ_TRY(read_interfaces(&interfaces));
  const NetworkAddress* loopback = nullptr;
  for (const NetworkAddress& address : found) {
    if (!is_own(address, interfaces.get())) continue;
    if (!address.is_loopback() || means_loopback(host)) {
      *out = address;
      return Status();
    }
    loopback = &address;
  }
  char there[300];
  list_interfaces(interfaces.get(), there, sizeof there);
  if (loopback != nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "address=%s is %s here, which no other machine reaches (a line of /etc/hosts may "
                "say so); name an interface with interface= or GQSGD_INTERFACE, or an address of: "
                "%s",
                Shown(host).text(), AddressText(*loopback).text(), there);
  }
  return fail(GQSGD_INVALID_ARGUMENT, "address=%s is %s, no address of this machine; there are: %s",
              Shown(host).text(), AddressText(found[0]).text(), there);
}

/** What packets to `host` have as their source; family 0 if there is no way to it. Sends none. */
NetworkAddress source_address_to(NetworkAddress host) {
  const int socket = ::socket(host.family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return {};
  host.port = 1;  // a connection of UDP is a lookup of the route, but needs some port
  const SocketName name = socket_name_of(host);
  const bool is_reached = connect(socket, name.get(), name.size_bytes) == 0;
  NetworkAddress source = is_reached ? local_address(socket) : NetworkAddress();
  close(socket);
  source.port = 0;
  return source;
}

bool is_unspecified(const NetworkAddress& address) {
  const auto* end = address.bytes + sizeof address.bytes;
  return std::all_of(address.bytes, end, [](unsigned char byte) { return byte == 0; });
}

}  // namespace

bool NetworkAddress::is_loopback() const {
  static constexpr unsigned char kLoopback6[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  if (family == AF_INET) return bytes[0] == 127;
  return family == AF_INET6 && memcmp(bytes, kLoopback6, sizeof bytes) == 0;
}

AddressText::AddressText(const NetworkAddress& address) {
  char host[INET6_ADDRSTRLEN] = "?";
  inet_ntop(address.family, address.bytes, host, sizeof host);
  const bool is_six = address.family == AF_INET6;
  if (address.port == 0) {
    snprintf(text_, sizeof text_, "%s", host);
  } else {
    snprintf(text_, sizeof text_, is_six ? "[%s]:%u" : "%s:%u", host, address.port);
  }
}

SocketName socket_name_of(const NetworkAddress& address) {
  SocketName name{};
  if (address.family == AF_INET6) {
    auto* six = reinterpret_cast<sockaddr_in6*>(&name.storage);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(address.port);
    memcpy(&six->sin6_addr, address.bytes, sizeof six->sin6_addr);
    name.size_bytes = sizeof *six;
  } else {
    auto* four = reinterpret_cast<sockaddr_in*>(&name.storage);
    four->sin_family = AF_INET;
    four->sin_port = htons(address.port);
    memcpy(&four->sin_addr, address.bytes, sizeof four->sin_addr);
    name.size_bytes = sizeof *four;
  }
  return name;
}

NetworkAddress address_of(const sockaddr* name) {
  NetworkAddress address;
  if (name->sa_family == AF_INET) {
    sockaddr_in four;
    memcpy(&four, name, sizeof four);
    address.family = AF_INET;
    address.port = ntohs(four.sin_port);
    memcpy(address.bytes, &four.sin_addr, sizeof four.sin_addr);
  } else if (name->sa_family == AF_INET6) {
    sockaddr_in6 six;
    memcpy(&six, name, sizeof six);
    const bool is_four = IN6_IS_ADDR_V4MAPPED(&six.sin6_addr);
    address.family = is_four ? AF_INET : AF_INET6;
    address.port = ntohs(six.sin6_port);
    const size_t first = is_four ? sizeof six.sin6_addr - sizeof(in_addr) : 0;
    memcpy(address.bytes, six.sin6_addr.s6_addr + first, sizeof six.sin6_addr - first);
  }
  return address;
}

NetworkAddress local_address(int socket) {
  sockaddr_storage name{};
  socklen_t size_bytes = sizeof name;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size_bytes) != 0) return {};
  return address_of(reinterpret_cast<const sockaddr*>(&name));
}

Status resolve_host(const char* host, uint16_t port, const char* meaning,
                    std::vector<NetworkAddress>* out) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  const int error = getaddrinfo(host, nullptr, &wanted, &first);
  if (error != 0) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "%s=%s has no address: %s; is the name spelled as the other machines know it?",
                meaning, Shown(host).text(), gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(first, freeaddrinfo);
  try {
    out->clear();
    for (const addrinfo* next = first; next != nullptr; next = next->ai_next) {
      NetworkAddress address = address_of(next->ai_addr);
      address.port = port;
      if (address.family != 0) out->push_back(address);
    }
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for the addresses of %s", Shown(host).text());
  }
  if (!out->empty()) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "%s=%s has neither an IPv4 nor an IPv6 address", meaning,
              Shown(host).text());
}

bool has_sockets_of(uint16_t family) {
  const int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return errno != EAFNOSUPPORT;
  close(socket);
  return true;
}

Status find_own_address(const AddressChoice& choice, NetworkAddress* out) {
  if (choice.interface[0] != '\0') return find_interface(choice.interface, out);
  if (choice.address[0] != '\0') return find_named(choice.address, out);
  return find_interface("", out);
}

Status find_interfaces_to(const std::vector<NetworkAddress>& hosts,
                          std::vector<std::string>* names) {
  Interfaces interfaces;
  GQ_TRY(read_interfaces(&interfaces));
  std::vector<NetworkAddress> sources;
  for (const NetworkAddress& host : hosts) {
    if (host.family == 0 || is_unspecified(host)) continue;
    const NetworkAddress source = source_address_to(host);
    if (source.family != 0 && !source.is_loopback()) sources.push_back(source);
  }
  names->clear();
  for (const ifaddrs* next = interfaces.get(); next != nullptr; next = next->ifa_next) {
    const NetworkAddress own = usable_address(*next);
    const auto is_source = [&](const NetworkAddress& source) { return same_host(source, own); };
    // "eth0:1" is an address of eth0 with a label.
    const std::string name(next->ifa_name, strcspn(next->ifa_name, ":"));
    const bool is_listed = std::find(names->begin(), names->end(), name) != names->end();
    if (is_listed || std::none_of(sources.begin(), sources.end(), is_source)) continue;
    names->push_back(name);
  }
  return Status();
}

}  // namespace gq
