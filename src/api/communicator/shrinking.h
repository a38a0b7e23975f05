// One rank's part in gqsgd_comm_shrink: looks at the registers of the others, advances the
// agreement (src/survivors), and forms its end of the group that is proposed.
#ifndef GQ_API_COMMUNICATOR_SHRINKING_H
#define GQ_API_COMMUNICATOR_SHRINKING_H

#include <vector>

#include "src/api/communicator/communicator.h"
#include "src/transport/deadline.h"
#include "src/survivors/membership.h"
#include "src/transport/registers.h"

namespace gq {

class Shrinking {
 public:
  /** `old` is broken, has no call in flight, and outlives this. May throw std::bad_alloc. */
  Shrinking(Communicator* old, const CommOptions& options, void* recv);
  ~Shrinking();
  /** In place of one, where there is no memory for it: the others go on without this rank. */
  static void decline(Communicator* old);
  Shrinking(const Shrinking&) = delete;
  Shrinking& operator=(const Shrinking&) = delete;

  /** Returns when it is decided who goes on, or this rank has given up: REVOKED, or a failure of
   *  its own. */
  Status run();

  // After OK.
  const Proposal& decision() const { return membership_.decision(); }
  /** True if another survivor has ended a call that has failed here. */
  bool is_behind(const Proposal& proposal) const {
    return membership_.own().report.ended < proposal.ended;
  }
  /** The communicator of the group that has been agreed on; the result of another rank, if that has
   *  been agreed on, is in `recv` by then. */
  Status take(gqsgd_comm* comm);

 private:
  void agree();
  void give_up_without_memory();
  void look();
  void renew_offer();
  void publish();
  void form();
  Status form_end(const Proposal& proposal, const GroupName& name);
  Status make_end(const Proposal& proposal, std::unique_ptr<HostTransport> transport,
                  const char* name);
  Status exchange_result(const Proposal& proposal);
  void drop_end();
  bool is_superseded();
  Status left_out() const;

  Communicator& old_;
  GroupRegisters& registers_;
  CommOptions options_;
  const uint32_t rank_;
  const uint32_t size_;
  const MembershipOptions agreement_;
  Membership membership_;
  uint64_t published_ = 0;
  std::vector<gqsgd_unique_id> offers_;  ///< of this rank; some have been used
  Status own_failure_;  ///< for which this rank gives up
  Status not_formed_;   ///< why no group has formed
  Ballot forming_ = 0;
  Ballot formed_ = 0;  ///< the attempt of which `end_` is
  gqsgd_comm end_ = nullptr;
  void* const recv_;
  std::vector<unsigned char> result_;  ///< of the interrupted call, as `end_` has given it
};

}  // namespace gq

#endif
