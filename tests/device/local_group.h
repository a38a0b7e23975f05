// Threads of one local group whose buffers are memory of the device that tests have.
#ifndef GQ_TESTS_DEVICE_LOCAL_GROUP_H
#define GQ_TESTS_DEVICE_LOCAL_GROUP_H

#include <gqsgd.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/nccl/group.h"
#include "tests/support/host_device.h"
#include "tests/support/operation.h"

namespace gq::test {

class LocalGroup {
 public:
  explicit LocalGroup(int rank_count, const std::string& options = "timeout_ms=20000");
  ~LocalGroup();
  LocalGroup(const LocalGroup&) = delete;
  LocalGroup& operator=(const LocalGroup&) = delete;

  int size() const { return static_cast<int>(comms_.size()); }
  gqsgd_comm comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }
  /** Runs `body` on a thread for each rank; lines of what it returned, where it was not "". */
  std::string run(const std::function<std::string(int rank, gqsgd_comm comm)>& body) const;
  void destroy(int rank);

 private:
  UseHostDevice device_;
  std::vector<gqsgd_comm> comms_;
};

/** Calls one after the other, and what virtual ranks make of them. */
class Calls {
 public:
  /** Lengths are taken in turn. */
  Calls(int rank_count, const std::vector<Operation>& operations,
        const std::vector<size_t>& value_counts);

  /** Makes all calls as this rank without waiting, each on a stream of its own that is late by
   *  another time than those of other ranks; then waits and compares. */
  std::string make_and_compare(int rank, gqsgd_comm comm) const;

 private:
  std::vector<Operation> operations_;
  std::vector<std::vector<Values>> inputs_;
  std::vector<Values> expected_;
};

/** Every schedule with mean and sum, in place and not. */
std::vector<Operation> calls_of(const std::string& format, const std::vector<int32_t>& schedules);

}  // namespace gq::test

#endif
