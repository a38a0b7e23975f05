// The bootstrap of rank 0: it admits the ranks of the group, and sends the same outcome to all.
#ifndef GQ_TRANSPORT_BOOTSTRAP_BOOTSTRAP_ROOT_H
#define GQ_TRANSPORT_BOOTSTRAP_BOOTSTRAP_ROOT_H

#include <poll.h>

#include "src/transport/bootstrap/bootstrap.h"
#include "src/transport/bootstrap/bootstrap_messages.h"
#include "src/transport/bootstrap/packet_socket.h"

namespace gq {

class Root final : public Bootstrap {
 public:
  explicit Root(const JoinToken& join_token) : join_token_(join_token) {}

  Status prepare();
  Status gather(Status own, Member bring, GroupMembers* group) override;
  Status conclude(Status own) override;

 private:
  /** Clients that have connected and not yet proved that they belong to the group. The newest
   *  replaces the oldest, so silent ones cannot keep ranks out. */
  static constexpr uint32_t kPendingClientsMax = 64;
  /** Connections taken per iteration, so that processes that connect without end keep rank 0
   * neither from its deadline nor from the ranks. Fewer than kPendingClientsMax: each is read
   * before it is dropped for newer ones. */
  static constexpr uint32_t kAcceptsPerIteration = 32;
  struct PendingClient {
    ForkGuard socket;
    uint64_t drop_us = 0;
  };

  struct JoinedRank {
    ForkGuard socket;  ///< open while its rank is here
    Member member;
    bool taken = false;  ///< its rank has been here
  };

  Status receive_all(Member bring, GroupMembers* group);
  bool is_over();
  Status watch();
  Status accept_pending();
  void drop_pending(uint32_t index);
  void receive_join_requests();
  void receive_from_joined();
  void answer_waiting();
  void admit(const JoinRequest& join_request, const Status& received, Packet* packet,
             ForkGuard* socket);
  void check_join_request(const JoinRequest& join_request, const Status& received);
  [[gnu::format(printf, 4, 5)]] void refuse(int socket, gqsgd_status status, const char* format,
                                            ...);

  Status send_group(uint32_t rank);
  Status send_members(uint32_t rank, uint32_t first_rank, uint32_t rank_count);
  Status await_report(uint32_t rank);

  [[gnu::format(printf, 3, 4)]] void fail_group(gqsgd_status status, const char* format, ...);
  void fail_for_missing_ranks(uint32_t impatient);
  void fail_for_own_status(const Status& own);
  static void send_outcome(int socket, const Outcome& outcome);
  void send_outcome_to(int socket) const { send_outcome(socket, outcome_); }
  Status group_failure() const {
    if (!own_.ok()) return own_;
    return fail(outcome_.status, "%s", outcome_.sentence);
  }

  JoinToken join_token_;
  ForkGuard listener_;
  std::unique_ptr<JoinedRank[]> joined_;       // one per rank
  uint32_t taken_count_ = 1;                   // rank 0 is here
  PendingClient pending_[kPendingClientsMax];  // oldest first
  uint32_t pending_count_ = 0;
  std::unique_ptr<pollfd[]> polls_;
  Outcome outcome_;  // OK until the group has failed
  Status own_;       // what it failed with, if that was a failure of this process
  uint64_t linger_until_us_ = 0;
};

}  // namespace gq

#endif
