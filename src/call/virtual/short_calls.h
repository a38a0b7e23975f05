// Short calls over a wire: every rank sends its values to all others along with its control
// message, and each computes what all ranks would have made of them, with the same bits. So a call
// takes one message in sequence, where codes take five.
#ifndef GQ_CALL_VIRTUAL_SHORT_CALLS_H
#define GQ_CALL_VIRTUAL_SHORT_CALLS_H

#include <vector>

#include "src/call/virtual/virtual_ranks.h"

namespace gq {

class ShortCalls {
 public:
  /** Whether a call is one by the schedule direct: the same on all ranks that make it. */
  static bool may_take(const Endpoint& endpoint, const Call& call);
  /** Whether a call whose schedule is resolved is one. */
  static bool takes(const Endpoint& endpoint, const Call& call, const Plan& plan);

  /** May throw std::bad_alloc. */
  Status open(const Endpoint& endpoint);

  /** Puts the values of this rank into its next control message. May throw std::bad_alloc: what
   *  follows allocates nothing for the segments of the call. */
  void enclose(const Endpoint& endpoint, const Call& call);

  /** Writes the result of this rank. *digest is that of its words. */
  Status finish(Endpoint& endpoint, const Call& call, uint64_t* digest);

  /** The result of the newest call of one array again. */
  Status write_kept_result(uint32_t rank, void* recv);

 private:
  Status take_values(Endpoint& endpoint, const Call& call, uint32_t rank);

  VirtualRanks ranks_;
  std::vector<Places> places_;         // of each rank's segments
  std::vector<unsigned char> values_;  // of this rank, one segment behind the other
};

}  // namespace gq

#endif
