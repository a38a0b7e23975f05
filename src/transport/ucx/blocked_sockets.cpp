// A connection whose buffer is full is one to which nothing can be written.
#include "src/transport/ucx/blocked_sockets.h"

#include <poll.h>
#include <sys/socket.h>

#include "src/transport/ucx/watched_descriptors.h"

namespace gq {
namespace {

bool is_tcp_connection(int descriptor) {
  sockaddr_storage peer;
  socklen_t size_bytes = sizeof peer;
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size_bytes) != 0) return false;
  return peer.ss_family == AF_INET || peer.ss_family == AF_INET6;
}

void end_if_blocked(void*, int descriptor) {
  if (!is_tcp_connection(descriptor)) return;
  pollfd writable{descriptor, POLLOUT, 0};
  if (poll(&writable, 1, 0) == 0) shutdown(descriptor, SHUT_WR);
}

}  // namespace

void end_blocked_sockets(int epoll) { visit_watched(epoll, end_if_blocked, nullptr); }

}  // namespace gq
