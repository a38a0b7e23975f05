// A status as a condition of a test, which prints the sentence of a failure.
#ifndef GQ_TESTS_SUPPORT_SUCCEEDS_H
#define GQ_TESTS_SUPPORT_SUCCEEDS_H

#include <gtest/gtest.h>

#include "src/support/status.h"

namespace gq::test {

/** For EXPECT_TRUE and ASSERT_TRUE. */
inline ::testing::AssertionResult succeeds(const Status& status) {
  if (status.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status.sentence();
}

}  // namespace gq::test

#endif
