// The connections of one rank to all others, while they are made: it connects to those below it,
// and those above it connect to it.
#ifndef GQ_TRANSPORT_NETWORK_BOOTSTRAP_MESH_H
#define GQ_TRANSPORT_NETWORK_BOOTSTRAP_MESH_H

#include <poll.h>

#include "src/transport/network/bootstrap/link_setup.h"
#include "src/transport/network/bootstrap/network_bootstrap.h"
#include "src/transport/network/bootstrap/pending_connections.h"

namespace gq {

class Mesh {
 public:
  /** `root` is the connection to rank 0, which exists by now. */
  Mesh(const NetworkToken& token, const std::vector<NetworkMember>& members,
       std::unique_ptr<TcpSocket> root, std::unique_ptr<TcpSocket> listener);

  /** Returns when all are connected and have exchanged their engines' addresses; the failure of the
   *  group if rank 0 sends one. */
  Status connect(const std::vector<unsigned char>& engine_message);
  /** For messages between this rank and rank 0, after and instead of connect(). */
  const TcpSocket& root() const { return *links_[0].socket; }
  EngineAddresses take_engine_addresses();
  NetworkLinks take_links();

 private:
  enum class Step { away, connects, shakes_hands, exchanges, ready };
  struct Link {
    std::unique_ptr<TcpSocket> socket;
    Step step = Step::away;
    Handshake handshake;
    LinkSetup setup;
    int error = 0;  ///< of the last attempt to connect
    uint64_t retry_us = 0;
    uint64_t first_failed_us = 0;
  };

  Status advance(uint32_t peer);
  Status begin(uint32_t peer);
  Status retry(uint32_t peer, int error);
  Status exchange(uint32_t peer);
  Status watch_root();
  Status accept_proved();
  Status watch();
  Status late() const;
  Status root_is_gone() const;
  bool is_ready() const;

  const NetworkToken& token_;
  const std::vector<NetworkMember>& members_;
  std::unique_ptr<TcpSocket> listener_;
  PendingConnections pending_;
  std::vector<Link> links_;  // one per rank
  std::vector<pollfd> polls_;
  const std::vector<unsigned char>* engine_message_ = nullptr;
  NetworkOutcome outcome_;  // that rank 0 sends where the group fails
  size_t outcome_bytes_ = 0;
};

}  // namespace gq

#endif
