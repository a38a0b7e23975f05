// Ends its program at the first failed expectation. A program with a mutation only has to turn red;
// without this some print a hundred megabytes of failures.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace gq::test {
namespace {

class FirstFailure : public ::testing::EmptyTestEventListener {
  // The printer of GoogleTest stands before this in the list: the failure is on its way out.
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::puts("This is the first failure, and enough to find a mutation.");
    std::fflush(nullptr);
    std::_Exit(1);
  }
};

const bool kListens = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new FirstFailure);
  return true;
}();

}  // namespace
}  // namespace gq::test
