// How processes become a group: all connect to rank 0 over a socket, prove that they know the
// secret, hand over what the others need of them, and agree that all are ready. Nothing here knows
// what the descriptors are for.
#ifndef GQ_TRANSPORT_BOOTSTRAP_BOOTSTRAP_H
#define GQ_TRANSPORT_BOOTSTRAP_BOOTSTRAP_H

#include <stdint.h>

#include <memory>

#include "src/transport/deadline.h"
#include "src/transport/bootstrap/unique_id.h"
#include "src/transport/process/descriptor.h"

namespace gq {

struct JoinToken {
  UniqueId id;
  uint32_t rank;
  uint32_t size;
  Deadline deadline;
};

/** What every rank hands to every other. */
struct Member {
  Descriptor memory;
  Descriptor wakeup;
  Descriptor liveness_pipe;
};
inline constexpr uint32_t kMemberDescriptors = 3;

struct GroupMembers {
  std::unique_ptr<Member[]> members;  ///< one per rank
  uint32_t tag = 0;
};

/** One rank's side of the bootstrap; destroyed when it is over. All failures are those of the whole
 *  group, in the same words on every rank, unless a rank's claim to belong is itself refused. */
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  /** Takes over what this rank brings and returns when the list of members is complete. `own` is a
   * failure that keeps this rank from bringing anything: the other ranks receive it, and so does
   * the caller. MISMATCH, VERSION, DUPLICATE_RANK, TIMEOUT, PEER_LOST, REMOTE_ERROR, or a system
   * failure. */
  virtual Status gather(Status own, Member bring, GroupMembers* group) = 0;

  /** Returns OK when every rank has reported that it is ready. */
  virtual Status conclude(Status own) = 0;
};

/** NO_MEMORY, or a bootstrap for this rank. No rank is contacted or waited for yet. */
Status open_bootstrap(const JoinToken& join_token, std::unique_ptr<Bootstrap>* out);

}  // namespace gq

#endif
