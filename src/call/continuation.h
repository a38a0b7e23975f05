// What the ranks of a new group agree on before its first call: who continues which rank of the old
// group, at which step, with which random numbers and costs.
#ifndef GQ_CALL_CONTINUATION_H
#define GQ_CALL_CONTINUATION_H

#include <stdint.h>

#include "src/execute/endpoint.h"

namespace gq {

inline constexpr int32_t kNewcomer = -1;

/** What one rank knows. All but `members` is 0 on a newcomer. */
struct Continuation {
  const int32_t* members = nullptr;  ///< of each new rank: its rank in the old group, or kNewcomer
  int32_t old_rank = kNewcomer;
  uint32_t old_tag = 0;  ///< of the old group, which tells groups apart
  uint32_t stream_id = 0;
  uint64_t step = 0;
  AutoOptions choice;
};

/** A collective of the new group, on an endpoint that has made no call. Sets its stream_id and
 *  choice, and *step. Failures are the same on all ranks, but for memory and lost ranks. */
Status continue_group(Endpoint& endpoint, const Continuation& own, uint64_t* step);

}  // namespace gq

#endif
