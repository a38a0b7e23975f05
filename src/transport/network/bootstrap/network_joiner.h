// The bootstrap of every rank but rank 0.
#ifndef GQ_TRANSPORT_NETWORK_BOOTSTRAP_NETWORK_JOINER_H
#define GQ_TRANSPORT_NETWORK_BOOTSTRAP_NETWORK_JOINER_H

#include "src/transport/network/bootstrap/mesh.h"
#include "src/transport/network/bootstrap/network_bootstrap.h"

namespace gq {

class NetworkJoiner final : public NetworkBootstrap {
 public:
  explicit NetworkJoiner(NetworkToken* token) : token_(token) {}

  Status gather(Status own, const NetworkMember& bring, NetworkTable* table) override;
  Status connect(Status own, const std::vector<unsigned char>& engine_address,
                 EngineAddresses* engine_addresses) override;
  bool has_failed() override;
  Status conclude(Status own, NetworkLinks* links) override;

 private:
  Status reach_root();
  Status try_root(const NetworkAddress& address, uint64_t leave_us, Handshake::State* state,
                  int* error);
  Status not_reached(const NetworkAddress& address, int error) const;
  Status listen(NetworkMember* own);
  Status send_report(const Status& own);
  Status receive_table(NetworkTable* table);
  Status send_bytes(const void* bytes, size_t size_bytes);
  Status receive_bytes(void* bytes, size_t size_bytes, const Deadline& deadline);
  Status receive_outcome(const Deadline& deadline, NetworkOutcome* outcome);
  Status ask_for_missing_ranks();
  Status root_is_gone() const;

  NetworkToken* const token_;
  std::unique_ptr<TcpSocket> root_;
  Handshake handshake_;
  NetworkAddress root_address_;
  std::unique_ptr<TcpSocket> listener_;
  std::vector<NetworkMember> members_;
  std::unique_ptr<Mesh> mesh_;
};

}  // namespace gq

#endif
