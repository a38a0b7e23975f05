// System calls on TCP sockets, each with its own ways to fail.
#include "src/transport/network/tcp_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <new>

#include "src/transport/system_failure.h"

namespace gq {
namespace {

constexpr int kBacklog = 4096;  // the system's limit, net.core.somaxconn, may be less
constexpr int kFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;

// A host that has vanished answers nothing: connections that carry nothing find out by these, in
// seconds. A call finds out by its own timeout.
constexpr int kKeepAliveIdle = 15;
constexpr int kKeepAliveInterval = 5;
constexpr int kKeepAliveCount = 3;
constexpr unsigned kUserTimeoutMs = 30000;

Status take(int descriptor, std::unique_ptr<TcpSocket>* out) {
  out->reset(new (std::nothrow) TcpSocket(descriptor));
  if (*out) return Status();
  close(descriptor);
  return fail(GQSGD_NO_MEMORY, "no memory for a connection");
}

/** None of these is needed for a right result. */
void tune(int socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kKeepAliveIdle, sizeof kKeepAliveIdle);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kKeepAliveInterval, sizeof kKeepAliveInterval);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kKeepAliveCount, sizeof kKeepAliveCount);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
}

Status open_socket(int family, std::unique_ptr<TcpSocket>* out) {
  ForkHold hold;
  const int descriptor = socket(family, SOCK_STREAM | kFlags, 0);
  if (descriptor < 0) return system_failure(errno, "a socket for ranks of other machines");
  return take(descriptor, out);
}

bool would_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Status listen_at(const NetworkAddress& address, std::unique_ptr<TcpSocket>* listener,
                 NetworkAddress* bound) {
  std::unique_ptr<TcpSocket> opened;
  GQ_TRY(open_socket(address.family, &opened));
  const int yes = 1;
  const int no = 0;
  setsockopt(opened->number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address.family == AF_INET6) {
    setsockopt(opened->number(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  }
  const SocketName name = socket_name_of(address);
  if (bind(opened->number(), name.get(), name.size_bytes) != 0 ||
      listen(opened->number(), kBacklog) != 0) {
    const int error = errno;
    if (error == EADDRINUSE) {
      return fail(GQSGD_NO_RESOURCE,
                  "%s is in use on this machine: another group forms there, or another program "
                  "listens; port=N or GQSGD_PORT selects another",
                  AddressText(address).text());
    }
    return system_failure(error, "listening for ranks at %s", AddressText(address).text());
  }
  *bound = local_address(opened->number());
  *listener = std::move(opened);
  return Status();
}

namespace {

/** Without a free descriptor accept() fails also where no connection is pending. */
bool is_readable(const TcpSocket& listener) {
  pollfd listening{listener.number(), POLLIN, 0};
  return poll(&listening, 1, 0) == 1;
}

}  // namespace

Status accept_connection(const TcpSocket& listener, std::unique_ptr<TcpSocket>* socket,
                         NetworkAddress* from) {
  socket->reset();
  ForkHold hold;
  sockaddr_storage name{};
  socklen_t size_bytes = sizeof name;
  const int descriptor =
      accept4(listener.number(), reinterpret_cast<sockaddr*>(&name), &size_bytes, kFlags);
  if (descriptor < 0) {
    // Errors of the connection that was to be accepted are none of the listener.
    const int error = errno;
    if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM) return Status();
    return is_readable(listener) ? system_failure(error, "accepting a rank") : Status();
  }
  tune(descriptor);
  *from = address_of(reinterpret_cast<const sockaddr*>(&name));
  return take(descriptor, socket);
}

Status begin_connect(const NetworkAddress& to, std::unique_ptr<TcpSocket>* socket, int* error) {
  *error = 0;
  std::unique_ptr<TcpSocket> opened;
  GQ_TRY(open_socket(to.family, &opened));
  tune(opened->number());
  const SocketName name = socket_name_of(to);
  if (connect(opened->number(), name.get(), name.size_bytes) != 0 && errno != EINPROGRESS) {
    *error = errno;
    return Status();
  }
  *socket = std::move(opened);
  return Status();
}

namespace {

/** While no process listens at a port of the range that the system takes ports of connections from
 *  (net.ipv4.ip_local_port_range), one of some thousand attempts to connect to it gets that port as
 *  its own, and is connected. */
bool is_connected_to_itself(int socket) {
  sockaddr_storage own{}, peer{};
  socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
  return getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
         getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) == 0 &&
         own_bytes == peer_bytes && memcmp(&own, &peer, own_bytes) == 0;
}

}  // namespace

int connect_error(const TcpSocket& socket) {
  int error = 0;
  socklen_t size_bytes = sizeof error;
  if (getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size_bytes) != 0) return errno;
  if (error != 0 || !is_connected_to_itself(socket.number())) return error;
  const linger none{1, 0};  // once it is closed its port is free for the rank that is to listen
  setsockopt(socket.number(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
  return ECONNREFUSED;
}

void end_sending(const TcpSocket& socket) {
  shutdown(socket.number(), SHUT_WR);
  char unread[512];
  while (recv(socket.number(), unread, sizeof unread, MSG_DONTWAIT) > 0) {
  }
}

SocketTransfer send_rest(const TcpSocket& socket, const void* bytes, size_t size_bytes,
                         size_t* done_bytes) {
  while (*done_bytes < size_bytes) {
    const ssize_t count = send(socket.number(), static_cast<const char*>(bytes) + *done_bytes,
                               size_bytes - *done_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) return would_wait(errno) ? SocketTransfer::not_yet : SocketTransfer::closed;
    *done_bytes += static_cast<size_t>(count);
  }
  *done_bytes = 0;
  return SocketTransfer::done;
}

SocketTransfer receive_rest(const TcpSocket& socket, void* bytes, size_t size_bytes,
                            size_t* done_bytes) {
  while (*done_bytes < size_bytes) {
    const ssize_t count = recv(socket.number(), static_cast<char*>(bytes) + *done_bytes,
                               size_bytes - *done_bytes, MSG_DONTWAIT);
    if (count == 0) return SocketTransfer::closed;
    if (count < 0) return would_wait(errno) ? SocketTransfer::not_yet : SocketTransfer::closed;
    *done_bytes += static_cast<size_t>(count);
  }
  *done_bytes = 0;
  return SocketTransfer::done;
}

}  // namespace gq
