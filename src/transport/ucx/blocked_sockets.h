// Connections of UCX that take no more bytes, found through its epoll descriptors.
#ifndef GQ_TRANSPORT_UCX_BLOCKED_SOCKETS_H
#define GQ_TRANSPORT_UCX_BLOCKED_SOCKETS_H

namespace gq {

/** Ends the sending direction of each TCP connection that the epoll descriptor `epoll`, or one in
 *  it, watches and whose buffer is full: what is sent later fails at once. What is in the buffer
 *  still goes out. Needs /proc; without it nothing happens. */
void end_blocked_sockets(int epoll);

}  // namespace gq

#endif
