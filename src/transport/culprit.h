// Which rank a wait in vain is blamed on: the awaited one, or one that it waits for itself.
#ifndef GQ_TRANSPORT_CULPRIT_H
#define GQ_TRANSPORT_CULPRIT_H

#include <stdio.h>

#include "src/transport/host_transport.h"

namespace gq {

/** Sought before the sentence is made, so that the sentence names the same rank as the peers'
 *  sentences. */
class Culprit {
 public:
  /** `what_is_wrong` ("it is stopped or too slow") describes `awaited` unless another rank is at
   *  fault. */
  Culprit(const HostTransport& transport, uint32_t awaited, const char* what_is_wrong)
      : rank_(transport.culprit_behind(awaited)) {
    if (rank_ == awaited) {
      snprintf(clause_, sizeof clause_, "%s", what_is_wrong);
    } else if (rank_ == transport.rank()) {
      snprintf(clause_, sizeof clause_,
               "no other rank answers rank %u: its own network does not work", rank_);
    } else {
      snprintf(clause_, sizeof clause_,
               "rank %u itself waits for rank %u, which is stopped or too slow", awaited, rank_);
    }
  }

  uint32_t rank() const { return rank_; }
  const char* clause() const { return clause_; }

 private:
  uint32_t rank_;
  char clause_[96];
};

/** The description of a rank that has made this call and sends nothing. */
inline constexpr char kStoppedOrSlow[] = "it is stopped or too slow";

}  // namespace gq

#endif
