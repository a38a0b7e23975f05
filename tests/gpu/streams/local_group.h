// Threads of one local group whose buffers are memory of the device that tests have.
#ifndef GQ_TESTS_GPU_STREAMS_LOCAL_GROUP_H
#define GQ_TESTS_GPU_STREAMS_LOCAL_GROUP_H

#include <gqsgd.h>

#include <string>
#include <vector>

#include "tests/gpu/nccl/group.h"
#include "tests/support/host_device/device_group.h"
#include "tests/support/operation.h"

namespace gq::test {

class LocalGroup : public DeviceGroup {
 public:
  explicit LocalGroup(int rank_count, const std::string& options = "timeout_ms=20000");
};

/** Calls one after the other, and what virtual ranks make of them. */
class Calls {
 public:
  /** Lengths of calls in one piece are taken cyclically. options: of the virtual ranks. */
  Calls(int rank_count, const std::vector<Operation>& operations,
        const std::vector<size_t>& value_counts, const std::string& options = "");

  /** Makes all calls as this rank without waiting, each on a stream of its own that is late by
   *  another time than those of other ranks; then waits and compares. */
  std::string make_and_compare(int rank, gqsgd_comm comm) const;

 private:
  std::vector<Operation> operations_;
  std::vector<std::vector<Values>> inputs_;
  std::vector<Values> expected_;
};

}  // namespace gq::test

#endif
