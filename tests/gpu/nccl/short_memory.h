// A call for which memory is short on one rank, in whatever step: no rank hangs, all ranks get the
// failure or none, nothing is written where it failed and nothing is left behind.
#ifndef GQ_TESTS_GPU_NCCL_SHORT_MEMORY_H
#define GQ_TESTS_GPU_NCCL_SHORT_MEMORY_H

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/gpu/nccl/group.h"

namespace gq::test {

/** Allocations fail from the first on, then from the second, until all of them suffice. */
template <typename Group>
void make_with_short_memory(const Operation& operation, const Values& input) {
  const size_t before = allocations_in_use();
  bool sufficed = false;
  for (size_t nth = 1; nth < 40 && !sufficed; ++nth) {
    {
      const Group group(3, "timeout_ms=5000");
      std::vector<gqsgd_status> said(3);
      std::vector<std::unique_ptr<StreamCall>> calls;
      for (int rank = 0; rank < 3; ++rank) {
        calls.push_back(std::make_unique<StreamCall>(input));
      }
      fail_allocations_from(nth);
      EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
        const auto number = static_cast<size_t>(rank);
        said[number] = calls[number]->make(comm, operation);
        return calls[number]->wait() ? "" : "the stream does not get through";
      }),
                "");
      fail_allocations_from(0);
      sufficed = said == std::vector<gqsgd_status>(3, GQSGD_OK);
      for (size_t rank = 0; rank < 3 && !sufficed; ++rank) {
        const bool told = said[rank] == GQSGD_NO_MEMORY || said[rank] == GQSGD_REMOTE_ERROR;
        EXPECT_TRUE(told) << nth << ": " << gqsgd_status_name(said[rank]);
        EXPECT_TRUE(calls[rank]->untouched()) << nth;
      }
    }
    EXPECT_EQ(allocations_in_use(), before) << nth;
  }
  EXPECT_TRUE(sufficed);
}

}  // namespace gq::test

#endif
