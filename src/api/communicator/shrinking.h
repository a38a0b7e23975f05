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
  Shrinking(Communicator* old, const CommOptions& options, bool takes_result);
  ~Shrinking();
  Shrinking(const Shrinking&) = delete;
  Shrinking& operator=(const Shrinking&) = delete;

  /** Returns when it is decided who goes on, or this rank has given up: REVOKED, or a failure of
   *  its own. May throw std::bad_alloc. */
  Status run();

  // After OK.
  const Proposal& decision() const { return membership_.decision(); }
  uint64_t ended_calls() const { return membership_.own().report.ended; }
  /** Makes the communicator of the group that has been agreed on. Waits for no other rank. */
  Status take(gqsgd_comm* comm);

 private:
  void look();
  void renew_offer();
  void publish();
  void form();
  Status form_end(const Proposal& proposal, const GroupName& name);
  bool is_superseded();
  Status left_out() const;

  Communicator& old_;
  GroupRegisters& registers_;
  CommOptions options_;
  const uint32_t rank_;
  const uint32_t size_;
  Membership membership_;
  uint64_t published_ = 0;
  std::vector<gqsgd_unique_id> offers_;  ///< of this rank; some have been used
  Status own_failure_;  ///< for which this rank gives up
  Ballot forming_ = 0;
  Ballot formed_ = 0;  ///< the attempt of which `end_` is
  std::unique_ptr<HostTransport> end_;
  const char* end_name_ = "";
};

}  // namespace gq

#endif
