// What epoll descriptors watch, as the kernel lists it in /proc.
#ifndef GQ_TRANSPORT_UCX_WATCHED_DESCRIPTORS_H
#define GQ_TRANSPORT_UCX_WATCHED_DESCRIPTORS_H

namespace gq {

/** Calls `visit` for each descriptor that the epoll descriptor `epoll` watches, and for those that
 *  epoll descriptors among them watch. Without /proc, or of another descriptor, for none. */
void visit_watched(int epoll, void (*visit)(void* user, int descriptor), void* user);

}  // namespace gq

#endif
