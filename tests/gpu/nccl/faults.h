// What tests of failures over NCCL share.
#ifndef GQ_TESTS_GPU_NCCL_FAULTS_H
#define GQ_TESTS_GPU_NCCL_FAULTS_H

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/gpu/nccl/group.h"

namespace gq::test {

using Clock = std::chrono::steady_clock;

inline Operation usual() { return {"paper-ge8", GQSGD_SCHEDULE_DIRECT}; }

inline Values some_values() { return gradients(1, 600, 2)[0]; }

/** The faults of the stand-in for as long as this lives. */
class With {
 public:
  explicit With(const StandInFaults& faults) { set_faults(faults); }
  ~With() { set_faults({}); }
};

inline testing::AssertionResult says(gqsgd_status status, gqsgd_status expected, const char* part) {
  const std::string sentence = gqsgd_last_error();
  if (status == expected && sentence.find(part) != std::string::npos) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << gqsgd_status_name(status) << ": " << sentence;
}

}  // namespace gq::test

#endif
