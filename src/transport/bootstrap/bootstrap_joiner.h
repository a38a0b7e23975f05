// The bootstrap of every rank but rank 0.
#ifndef GQ_TRANSPORT_BOOTSTRAP_BOOTSTRAP_JOINER_H
#define GQ_TRANSPORT_BOOTSTRAP_BOOTSTRAP_JOINER_H

#include "src/transport/bootstrap/bootstrap.h"
#include "src/transport/bootstrap/bootstrap_messages.h"
#include "src/transport/bootstrap/packet_socket.h"

namespace gq {

class Joiner final : public Bootstrap {
 public:
  explicit Joiner(const JoinToken& join_token) : join_token_(join_token) {}

  Status gather(Status own, Member bring, GroupMembers* group) override;
  Status conclude(Status own) override;

 private:
  Status reach_root(const Deadline& deadline, bool has_been_there);
  Status send_join_request(gqsgd_status own, const Member& bring, Delivery* delivery);
  Status await_first_verdict(const Member& bring, Outcome* outcome, Packet* packet);
  Status await_outcome(Outcome* outcome, Packet* packet, Delivery* delivery);
  Status await_next_verdict(Outcome* outcome, Packet* packet);
  Status receive_outcome(const Deadline& deadline, Outcome* outcome, Packet* packet,
                         Delivery* delivery);
  Status report_missing_ranks(Outcome* outcome, Packet* packet, Delivery* delivery);
  Status report(gqsgd_status status);

  JoinToken join_token_;
  ForkGuard socket_;
};

}  // namespace gq

#endif
