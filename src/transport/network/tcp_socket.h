// TCP sockets that do not block, that a program started by this one does not get, and that a forked
// child closes.
#ifndef GQ_TRANSPORT_NETWORK_TCP_SOCKET_H
#define GQ_TRANSPORT_NETWORK_TCP_SOCKET_H

#include <stddef.h>

#include <memory>

#include "src/support/posix/fork.h"
#include "src/support/status.h"
#include "src/transport/network/network_address.h"

namespace gq {

/** An open socket; null stands for none. Peers see it end with this process, children or not. */
class TcpSocket {
 public:
  /** Takes over a descriptor that was made under the ForkHold that is still held. */
  explicit TcpSocket(int descriptor) { guard_.attach(descriptor); }
  /** -1 in a forked child. */
  int number() const { return guard_.number(); }

 private:
  ForkGuard guard_;
};

enum class SocketTransfer {
  done,
  not_yet,  ///< would have to wait
  closed    ///< the other end is gone
};

/** Listens at `address`; port 0 takes one that is free. *bound is where. NO_RESOURCE for a port in
 *  use. */
Status listen_at(const NetworkAddress& address, std::unique_ptr<TcpSocket>* listener,
                 NetworkAddress* bound);

/** The next connection; null while there is none. */
Status accept_connection(const TcpSocket& listener, std::unique_ptr<TcpSocket>* socket,
                         NetworkAddress* from);

/** Begins to connect. *error: the reason why that failed at once, or 0; then the socket becomes
 *  writable, and connect_error() says how it ended: ECONNREFUSED also where no socket listens and
 *  this one was connected with itself. */
Status begin_connect(const NetworkAddress& to, std::unique_ptr<TcpSocket>* socket, int* error);
int connect_error(const TcpSocket& socket);

/** What was sent arrives although the socket is closed next: with bytes unread it would be reset,
 *  and what was sent last be lost with it. */
void end_sending(const TcpSocket& socket);

/** Sends or receives the rest of `size_bytes`, of which *done_bytes are through, as far as that
 *  goes without waiting; done resets *done_bytes. */
SocketTransfer send_rest(const TcpSocket& socket, const void* bytes, size_t size_bytes,
                         size_t* done_bytes);
SocketTransfer receive_rest(const TcpSocket& socket, void* bytes, size_t size_bytes,
                            size_t* done_bytes);

}  // namespace gq

#endif
