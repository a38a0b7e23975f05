// Every rank's part in the meeting but rank 0's.
#ifndef GQ_TRANSPORT_BOOTSTRAP_BOOTSTRAP_GUEST_H
#define GQ_TRANSPORT_BOOTSTRAP_BOOTSTRAP_GUEST_H

#include "src/transport/bootstrap/bootstrap.h"
#include "src/transport/bootstrap/bootstrap_messages.h"
#include "src/transport/bootstrap/packet_socket.h"

namespace gq {

class Guest final : public Meeting {
 public:
  explicit Guest(const Invitation& invitation) : invitation_(invitation) {}

  Status gather(Status own, Member bring, Roster* roster) override;
  Status conclude(Status own) override;

 private:
  Status reach_host(uint64_t deadline_us, bool has_been_there);
  Status say_hello(gqsgd_status own, const Member& bring, Delivery* delivery);
  Status await_first_verdict(const Member& bring, Verdict* verdict, Packet* packet);
  Status await_verdict(Verdict* verdict, Packet* packet, Delivery* delivery);
  Status await_next_verdict(Verdict* verdict, Packet* packet);
  Status receive_verdict(uint64_t deadline_us, Verdict* verdict, Packet* packet,
                         Delivery* delivery);
  Status lose_patience(Verdict* verdict, Packet* packet, Delivery* delivery);
  Status report(gqsgd_status status);

  Invitation invitation_;
  Descriptor socket_;
};

}  // namespace gq

#endif
