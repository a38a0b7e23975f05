// Receives announced ahead of the moves that need them, on transports that copy: words come off the
// wire while stages work, and a wire that has to wait for a rank is idle.
#ifndef GQ_EXECUTE_LOOK_AHEAD_H
#define GQ_EXECUTE_LOOK_AHEAD_H

#include "src/execute/endpoint.h"
#include "src/plan/plan.h"

namespace gq {

/** A second walk over the same moves that looks at receives only. A result has a place of its own;
 *  an operand takes the next of its peer's slots, and the walk waits while that is in use. It never
 *  falls behind: where the executor is at a receive, everything received before has been merged
 *  that shares its slot, since a rank holds at most one operand of a peer. */
class LookAhead {
 public:
  /** Once; every call has a LookAhead of its own. */
  void begin(Endpoint& endpoint, const Plan& plan);

  /** Announces receives until one has no place, or enough are under way. */
  Status announce();

  /** The executor reports every receive and every merge to it. */
  bool counts() const { return copies_; }  ///< not where words are read in place
  void received(const Move& move);
  void merged(uint32_t peer);

  /** Where the operand last received from `peer` lies; 0 on transports that read in place. */
  size_t operand_bytes(uint32_t peer) const;

 private:
  bool next_receive();

  Endpoint* endpoint_ = nullptr;
  const Plan* plan_ = nullptr;
  MoveCursor cursor_;
  Move move_{};
  bool copies_ = false;
  bool held_ = false;  // move_ is still to be announced
  bool ended_ = false;
  uint32_t under_way_ = 0;
};

}  // namespace gq

#endif
