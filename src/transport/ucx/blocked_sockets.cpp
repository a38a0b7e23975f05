// The kernel lists what an epoll descriptor watches as lines "tfd: 15 events: ..".
#include "src/transport/ucx/blocked_sockets.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

namespace gq {
namespace {

// A worker's descriptor watches those of its network interfaces, which watch their connections.
constexpr int kDepthMax = 3;

void end_if_blocked(int socket) {
  pollfd writable{socket, POLLOUT, 0};
  if (poll(&writable, 1, 0) == 0) shutdown(socket, SHUT_WR);
}

bool is_tcp_connection(int descriptor) {
  sockaddr_storage peer;
  socklen_t size_bytes = sizeof peer;
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size_bytes) != 0) return false;
  return peer.ss_family == AF_INET || peer.ss_family == AF_INET6;
}

void visit_watched(int epoll, int depth) {
  char path[48];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", epoll);
  FILE* const lines = depth < kDepthMax ? fopen(path, "re") : nullptr;
  if (lines == nullptr) return;
  char line[256];
  while (fgets(line, sizeof line, lines) != nullptr) {
    int descriptor = -1;
    if (sscanf(line, "tfd: %d", &descriptor) != 1) continue;
    if (is_tcp_connection(descriptor)) {
      end_if_blocked(descriptor);
    } else {
      visit_watched(descriptor, depth + 1);  // of what is no epoll descriptor no line matches
    }
  }
  fclose(lines);
}

}  // namespace

void end_blocked_sockets(int epoll) { visit_watched(epoll, 0); }

}  // namespace gq
