/* Custom transports: a communicator over any means to move bytes between ranks.
 *
 * For those who write a transport: a table of C functions that send and receive bytes without
 * waiting. gqsgd_mpi.h is one over MPI; docs/TRANSPORTS.md has one over sockets. Everything else of
 * the library works as on its own transports, with the same bits: gqsgd.h. */
#ifndef GQSGD_TRANSPORT_H
#define GQSGD_TRANSPORT_H

#include "gqsgd.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** What an allreduce adds: integers modulo 2^64, or floats. */
enum { GQSGD_ADD_UINT64 = 0, GQSGD_ADD_FLOAT32 = 1 };

/** A transport as one rank sees it. Functions are called on the thread that called the library and
 *  on no other, one at a time; they must not call the library. They return 0, or a code of their
 *  own that fails the call under way with GQSGD_BACKEND, which names function, code, rank and
 *  phase. A C++ exception does the same, with its what(). Fields that are not used are 0.
 *
 *  send, receive, allgather and allreduce start something and return at once, with a number of the
 *  transport's choice in *request. Buffers stay valid until test() has set *done; then the number
 *  is free for reuse. A message is never empty. Between two ranks messages arrive in the order in
 *  which they were sent, as long as they were sent; both ends know their lengths. */
typedef struct {
  size_t struct_size_bytes; /**< sizeof(gqsgd_transport) */
  void *user;               /**< first argument of every function */
  int32_t rank, size;       /**< this rank and how many there are */

  /** Optional, `size` numbers, equal on all ranks and read at creation: ranks on one node have the
   *  same. The hierarchical schedule uses them, unless the option `nodes` is given;
   *  without either all ranks are on one node. */
  const int32_t *node_ids;

  /** Starts to send bytes to a peer. It may be done before the peer receives, but need not be. */
  int32_t (*send)(void *user, int32_t peer, const void *bytes, size_t size_bytes,
                  uint64_t *request);
  /** Starts to receive the next message from a peer. */
  int32_t (*receive)(void *user, int32_t peer, void *bytes, size_t size_bytes, uint64_t *request);
  /** Tests whether a request is done, without waiting; *size_bytes of a receive: what came. */
  int32_t (*test)(void *user, uint64_t request, int32_t *done, size_t *size_bytes);
  /** Moves everything under way as far as it goes. Returns as soon as a request is done that was
   *  not when it was called, otherwise after about timeout_us microseconds, in which it may sleep;
   *  0 only looks. */
  int32_t (*progress)(void *user, int32_t timeout_us);
  /** The communicator ends: cancels what is under way, without waiting for any peer, and frees what
   *  `user` is. Called once, last: by gqsgd_comm_destroy, or on the thread of a call that is under
   *  way then, at its end. Returns 0 if no bytes of the library will be read or written any more;
   *  otherwise the library leaves its buffers as they are for the life of the process. */
  int32_t (*close)(void *user);

  /** Optional: a message for a code that a function returned; NULL if there is none. */
  const char *(*error_text)(void *user, int32_t code);
  /** Optional: all ranks' `size_bytes` bytes, in rank order. NULL: ranks send them to each other,
   *  which is right for some tens of ranks, and lets a timeout name the rank that is missing. */
  int32_t (*allgather)(void *user, const void *own, void *all, size_t size_bytes,
                       uint64_t *request);
  /** Optional: adds `count` numbers of all ranks, GQSGD_ADD_*, aligned to their size; the sums take
   *  their place. Every rank must get the same bits: a transport that cannot guarantee that for
   *  floats, whose order of addition is its own, leaves this NULL. All ranks start the same ones in
   *  the same order, one at a time. NULL: schedule NATIVE is UNSUPPORTED, and AUTO does without. */
  int32_t (*allreduce)(void *user, int32_t addend, void *numbers, size_t count, uint64_t *request);

  /** Optional, copied at creation: what gqsgd_comm_transport returns, "custom" if NULL. */
  const char *name;
} gqsgd_transport;

/** Makes this rank's communicator over a transport; contacts no rank yet. The table is copied;
 *  `user` belongs to the communicator from then on, until close() is called. After a failure it is
 *  the caller's and nothing was called. options as for the other communicators (gqsgd.h,
 *  Communicators). INVALID_ARGUMENT names the field of the table that is wrong. */
gqsgd_status gqsgd_comm_create_custom(const gqsgd_transport *transport, const char *options,
                                      gqsgd_comm *comm);

/** For functions that create such communicators: makes `sentence` this thread's last error
 *  (gqsgd_last_error) and returns `status`. */
gqsgd_status gqsgd_fail(gqsgd_status status, const char *sentence);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
