// The ranks of a group on one thread, which advances them one after the other: all of them for
// gqsgd_simulate, or on each rank for a call whose values are all there.
#ifndef GQ_CALL_VIRTUAL_VIRTUAL_RANKS_H
#define GQ_CALL_VIRTUAL_VIRTUAL_RANKS_H

#include <memory>

#include "src/call/allreduce.h"

namespace gq {

/** One rank of them, and its call. The caller fills both. */
struct VirtualRank {
  Endpoint endpoint;
  Call call;
  Allreduce operation;
};

class VirtualRanks {
 public:
  /** With transports of their own. INVALID_ARGUMENT for too many of them. */
  Status open(uint32_t ranks);
  /** With transports of the caller's, one for each rank, which it takes. */
  Status open(uint32_t ranks, std::unique_ptr<HostTransport>* transports);

  uint32_t size() const { return size_; }
  VirtualRank& operator[](uint32_t rank) { return ranks_[rank]; }

  /** The calls of all ranks. */
  Status allreduce();

 private:
  uint32_t size_ = 0;
  std::unique_ptr<VirtualRank[]> ranks_;
};

}  // namespace gq

#endif
