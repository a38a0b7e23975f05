// One allreduce of a rank on memory of the real device, and whether it has the bits of virtual
// ranks.
#ifndef GQ_TESTS_GPU_ALLREDUCE_CALL_H
#define GQ_TESTS_GPU_ALLREDUCE_CALL_H

#include <string>
#include <vector>

#include "tests/support/operation.h"

namespace gq::test {

/** Calls of every schedule, formats of every kind, and what virtual ranks make of them. */
class DeviceCalls {
 public:
  DeviceCalls(int rank_count, const std::vector<std::string>& formats, size_t value_count);

  /** Enqueues all calls of rank `rank` on one stream of its own, waits once, compares: "" or what
   *  went wrong. */
  std::string make_and_compare(int rank, gqsgd_comm comm) const;

 private:
  std::vector<Values> inputs_;
  std::vector<Operation> operations_;
  std::vector<Values> expected_;
};

}  // namespace gq::test

#endif
