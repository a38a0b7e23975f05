// Groups that form over the loopback device, a thread per rank, below the C ABI and without UCX.
#ifndef GQ_TESTS_UNIT_TRANSPORT_NETWORK_FORMED_GROUP_H
#define GQ_TESTS_UNIT_TRANSPORT_NETWORK_FORMED_GROUP_H

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "src/transport/network/bootstrap/network_bootstrap.h"

namespace gq::test {

/** 127.0.0.1, without a port. */
NetworkAddress loopback();

/** What one rank has of a bootstrap. */
struct FormedRank {
  Status status;
  NetworkTable table;
  EngineAddresses engine_addresses;
  NetworkLinks links;
};

/** Rank 0's listener, and what all ranks know. */
class GroupPlan {
 public:
  explicit GroupPlan(uint32_t size, int64_t timeout_ms = 20000);

  /** The token of a rank; tests change what they want. */
  NetworkToken token(uint32_t rank);
  const NetworkAddress& root() const { return root_; }
  uint32_t size() const { return size_; }

 private:
  uint32_t size_;
  int64_t timeout_ms_;
  GroupSecret secret_;
  std::unique_ptr<TcpSocket> listener_;
  NetworkAddress root_;
};

/** What a rank does when it knows all others and has not connected to them. */
using Visit = std::function<void(const NetworkTable& table)>;

/** Goes through all steps; `own` is a failure before the engines' addresses are exchanged. */
FormedRank form_rank(NetworkToken token, Status own = Status(), const Visit& visit = nullptr);

using ChangeToken = std::function<void(uint32_t rank, NetworkToken* token)>;

/** All ranks on a thread each, but for those that `leave_out` names. */
std::vector<FormedRank> form_all(GroupPlan& plan, const ChangeToken& change = nullptr,
                                 const std::vector<uint32_t>& leave_out = {});

/** "" if every rank has all others' addresses and a link to each that works. */
std::string fault_of(const std::vector<FormedRank>& ranks);

/** A connected socket of the test's own; it blocks. -1 if there is none. */
int connect_plainly(const NetworkAddress& address);

}  // namespace gq::test

#endif
