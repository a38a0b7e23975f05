// How processes of any machines become a group: all connect to rank 0 and prove that they know the
// secret; rank 0 gives each the addresses of all; then each connects to each. Nothing here knows
// what the engine's addresses are for.
#ifndef GQ_TRANSPORT_NETWORK_BOOTSTRAP_NETWORK_BOOTSTRAP_H
#define GQ_TRANSPORT_NETWORK_BOOTSTRAP_NETWORK_BOOTSTRAP_H

#include <memory>
#include <vector>

#include "src/transport/deadline.h"
#include "src/transport/network/bootstrap/handshake.h"

namespace gq {

struct NetworkToken {
  GroupSecret secret;
  uint32_t rank = 0;
  uint32_t size = 0;
  Deadline deadline;
  std::vector<NetworkAddress> root;     ///< of rank 0, the same machine's: each is tried
  bool root_listens = false;            ///< rank 0 has listened before this process knew of it
  const char* root_meaning = "";        ///< what has named rank 0: " (MASTER_ADDR=a)"
  std::unique_ptr<TcpSocket> listener;  ///< rank 0's; other ranks make theirs
  NetworkAddress own;  ///< to listen at; family 0: the one by which rank 0 is reached
};

struct NetworkTable {
  std::vector<NetworkMember> members;  ///< one per rank
  unsigned char group_nonce[16] = {};  ///< equal on all ranks, fresh for every group
};

/** One per rank; the own one is empty. */
using EngineAddresses = std::vector<std::vector<unsigned char>>;
using NetworkLinks = std::vector<std::unique_ptr<TcpSocket>>;

/** One rank's side; destroyed when it is over. The members are called in this order, and may throw
 *  std::bad_alloc. All failures are those of the whole group, in the same words on every rank,
 *  unless a rank's claim to belong is itself refused. */
class NetworkBootstrap {
 public:
  virtual ~NetworkBootstrap() = default;

  /** Returns when all ranks are known to all. `own`: a failure that keeps this rank from joining;
   *  the others receive it, and so does the caller. */
  virtual Status gather(Status own, const NetworkMember& bring, NetworkTable* table) = 0;
  /** Connects this rank with all others, and exchanges the engines' addresses. */
  virtual Status connect(Status own, const std::vector<unsigned char>& engine_address,
                         EngineAddresses* engine_addresses) = 0;
  /** True if the group has failed since connect(): conclude() returns how. Does not wait. */
  virtual bool has_failed() = 0;
  /** OK when every rank has reported that it is ready; then *links has the connections. */
  virtual Status conclude(Status own, NetworkLinks* links) = 0;
};

/** The token stays where it is as long as the bootstrap lives. */
std::unique_ptr<NetworkBootstrap> open_network_bootstrap(NetworkToken* token);

}  // namespace gq

#endif
