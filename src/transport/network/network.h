// Ranks that are processes of any machines.
#ifndef GQ_TRANSPORT_NETWORK_NETWORK_H
#define GQ_TRANSPORT_NETWORK_NETWORK_H

#include <stdint.h>

#include <memory>
#include <string>

#include "src/transport/deadline.h"
#include "src/transport/host_transport.h"

namespace gq {

/** What the options of a communicator say about a network; strings are empty where they do not. */
struct NetworkOptions {
  std::string interface;
  std::string address;
  std::string host_id;
  std::string ucx;
  uint32_t port = 0;
  uint32_t paths = 1;  ///< connections of UCX to each other rank
};

/** A group as the environment describes it. */
struct LaunchedGroup {
  uint32_t rank = 0;
  uint32_t size = 0;
  std::string root;          ///< host name or address of rank 0
  std::string root_meaning;  ///< "MASTER_ADDR"
  uint16_t port = 0;
  std::string secret;  ///< empty: every process that reaches rank 0 can join
  std::string job;     ///< keeps groups of different jobs apart
};

/** Makes an id whose group forms at an address of this machine. */
Status create_network_id(const NetworkOptions& options, gqsgd_unique_id* unique_id);

/** Joins the group named by `id` as rank `rank` of `size`; returns when all are there, at most
 *  about `timeout_ms` later (-1: never gives up). `own`: a failure that keeps this rank from
 *  joining; the others are told within a second, and the caller gets it. */
Status create_network(const gqsgd_unique_id& id, uint32_t rank, uint32_t size,
                      const NetworkOptions& options, const Deadline& deadline,
                      std::unique_ptr<HostTransport>* out, const Status& own = Status());
inline Status create_network(const gqsgd_unique_id& id, uint32_t rank, uint32_t size,
                             const NetworkOptions& options, int64_t timeout_ms,
                             std::unique_ptr<HostTransport>* out, const Status& own = Status()) {
  return create_network(id, rank, size, options, Deadline(deadline_after_ms(timeout_ms)), out,
                        own);
}

/** Joins the group that was launched. Where all ranks are processes of one user on one machine,
 *  *process_id becomes the id of a process group, equal on all of them, and *out stays null. `own`
 *  as above. */
Status create_launched(const LaunchedGroup& group, const NetworkOptions& options,
                       int64_t timeout_ms, const Status& own, gqsgd_unique_id* process_id,
                       std::unique_ptr<HostTransport>* out);

}  // namespace gq

#endif
