// A custom transport over connected sockets, one to each peer (docs/TRANSPORTS.md).
#ifndef GQ_EXAMPLES_CPP_SOCKET_TRANSPORT_H
#define GQ_EXAMPLES_CPP_SOCKET_TRANSPORT_H

#include <errno.h>
#include <gqsgd_transport.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <unordered_map>
#include <vector>

/** Bytes of one message, and how many of them have moved. */
struct Transfer {
  unsigned char* bytes;
  size_t size_bytes, moved_bytes;
};

struct Sockets {
  std::vector<pollfd> peers;                          // the own one is -1
  std::vector<std::deque<uint64_t>> sends, receives;  // of each peer, in order
  std::unordered_map<uint64_t, Transfer> transfers;   // by request
  uint64_t newest = 0;

  uint64_t add(void* bytes, size_t size_bytes) {
    transfers[++newest] = {static_cast<unsigned char*>(bytes), size_bytes, 0};
    return newest;
  }

  /** Moves the transfers of one queue as far as they go; true if one is done. */
  template <typename Move>
  bool advance(std::deque<uint64_t>& queue, int32_t* error, Move move) {
    bool done = false;
    while (!queue.empty() && *error == 0) {
      Transfer& next = transfers[queue.front()];
      const ssize_t moved_bytes =
          move(next.bytes + next.moved_bytes, next.size_bytes - next.moved_bytes);
      if (moved_bytes == 0) *error = ECONNRESET;
      if (moved_bytes < 0 && errno == EAGAIN) break;
      if (moved_bytes < 0) *error = errno;
      if (moved_bytes > 0) next.moved_bytes += static_cast<size_t>(moved_bytes);
      if (next.moved_bytes < next.size_bytes) continue;
      queue.pop_front();
      done = true;
    }
    return done;
  }

  bool advance_all(int32_t* error) {
    bool done = false;
    for (size_t p = 0; p < peers.size(); ++p) {
      const int fd = peers[p].fd;
      done |= advance(sends[p], error, [fd](void* bytes, size_t size_bytes) {
        return send(fd, bytes, size_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
      });
      done |= advance(receives[p], error, [fd](void* bytes, size_t size_bytes) {
        return recv(fd, bytes, size_bytes, MSG_DONTWAIT);
      });
      peers[p].events =
          static_cast<short>((sends[p].empty() ? 0 : POLLOUT) | (receives[p].empty() ? 0 : POLLIN));
    }
    return done;
  }
};

/** A table over connected sockets, one for each peer and -1 for this rank; they are closed with the
 *  communicator. */
inline gqsgd_transport socket_transport(int32_t rank, const std::vector<int>& fds) {
  Sockets* sockets = new Sockets;
  for (int fd : fds) sockets->peers.push_back({fd, 0, 0});
  sockets->sends.resize(fds.size());
  sockets->receives.resize(fds.size());
  gqsgd_transport table = {};
  table.struct_size_bytes = sizeof table;
  table.user = sockets;
  table.rank = rank;
  table.size = static_cast<int32_t>(fds.size());
  table.send = [](void* user, int32_t peer, const void* bytes, size_t size_bytes,
                  uint64_t* request) {
    Sockets& self = *static_cast<Sockets*>(user);
    self.sends[peer].push_back(*request = self.add(const_cast<void*>(bytes), size_bytes));
    return 0;
  };
  table.receive = [](void* user, int32_t peer, void* bytes, size_t size_bytes, uint64_t* request) {
    Sockets& self = *static_cast<Sockets*>(user);
    self.receives[peer].push_back(*request = self.add(bytes, size_bytes));
    return 0;
  };
  table.test = [](void* user, uint64_t request, int32_t* done, size_t* size_bytes) {
    Sockets& self = *static_cast<Sockets*>(user);
    const Transfer& transfer = self.transfers[request];
    *size_bytes = transfer.moved_bytes;
    *done = transfer.moved_bytes == transfer.size_bytes;
    if (*done) self.transfers.erase(request);
    return 0;
  };
  table.progress = [](void* user, int32_t timeout_us) {
    Sockets& self = *static_cast<Sockets*>(user);
    int32_t error = 0;
    if (self.advance_all(&error) || timeout_us == 0 || error != 0) return error;
    const timespec timeout = {timeout_us / 1000000, timeout_us % 1000000 * 1000L};
    ppoll(self.peers.data(), self.peers.size(), &timeout, nullptr);
    self.advance_all(&error);
    return error;
  };
  table.close = [](void* user) {
    Sockets* self = static_cast<Sockets*>(user);
    for (const pollfd& peer : self->peers) close(peer.fd);
    delete self;
    return 0;
  };
  table.error_text = [](void*, int32_t code) -> const char* { return strerror(code); };
  return table;
}

#endif
