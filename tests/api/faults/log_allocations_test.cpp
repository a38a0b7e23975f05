// A log that is off, or that has logged a kind of call before, allocates nothing.
#include <gqsgd_log.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/api/faults/support/fail_nth.h"

namespace gq::test {
namespace {

constexpr unsigned long kNever = 1ul << 40;

/** A group of one rank, whose calls run on this thread. */
class LogAllocations : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(gqsgd_comm_create_local(1, "", &comm_), GQSGD_OK);
    ASSERT_EQ(gqsgd_quantizer_create("blocks-8", &quantizer_), GQSGD_OK);
  }
  void TearDown() override {
    gqsgd_set_log(GQSGD_LOG_NONE, nullptr, nullptr);
    gqsgd_comm_destroy(comm_);
    gqsgd_quantizer_destroy(quantizer_);
  }

  /** Allocations and system calls of one call. */
  unsigned long resources_of_a_call(size_t value_count) {
    fail_nth(kNever);
    const gqsgd_status status = gqsgd_allreduce(comm_, quantizer_, values_, values_, value_count,
                                                GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr);
    const unsigned long taken = kNever - fail_nth_pause();
    EXPECT_EQ(status, GQSGD_OK);
    return taken;
  }

  gqsgd_comm comm_ = nullptr;
  gqsgd_quantizer quantizer_ = nullptr;
  float values_[1000] = {};
  int lines_ = 0;
};

TEST_F(LogAllocations, LogOff_None) {
  EXPECT_GT(resources_of_a_call(1000), 0u);  // its workspace
  EXPECT_EQ(resources_of_a_call(1000), 0u);
  EXPECT_EQ(resources_of_a_call(999), 0u);
}

TEST_F(LogAllocations, EveryLevelOn_NoneForKindsOldAndNew) {
  resources_of_a_call(1000);
  gqsgd_set_log(
      GQSGD_LOG_TRACE, [](void* user, gqsgd_log_level, const char*) { ++*static_cast<int*>(user); },
      &lines_);
  EXPECT_EQ(resources_of_a_call(1000), 0u);
  EXPECT_EQ(resources_of_a_call(1000), 0u);
  EXPECT_EQ(lines_, 3);
  EXPECT_EQ(resources_of_a_call(999), 0u);
  EXPECT_EQ(lines_, 5);
}

}  // namespace
}  // namespace gq::test
