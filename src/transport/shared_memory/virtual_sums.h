// The allreduce of virtual ranks, which one thread advances one after the other: the last one to
// arrive adds.
#ifndef GQ_TRANSPORT_SHARED_MEMORY_VIRTUAL_SUMS_H
#define GQ_TRANSPORT_SHARED_MEMORY_VIRTUAL_SUMS_H

#include <stdint.h>

#include <vector>

#include "src/transport/host_transport.h"

namespace gq {

class VirtualSums {
 public:
  /** False if memory is short. */
  bool resize(uint32_t ranks);

  /** A rank's addends, which the sum takes the place of; floats are added in rank order. PROTOCOL
   *  if the ranks do not begin the same sum. */
  Status begin(uint32_t rank, const Sum& sum, unsigned char* addends);
  /** Whether the sum that this rank began is there. */
  bool done(uint32_t rank) const { return addends_[rank] == nullptr; }

 private:
  void add() const;

  std::vector<unsigned char*> addends_;  ///< of each rank, until they are added
  uint32_t come_ = 0;
  Sum sum_{};
};

}  // namespace gq

#endif
