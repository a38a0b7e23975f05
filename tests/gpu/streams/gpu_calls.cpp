// Tests of tests/gpu on the device that tests have: what is to pass on a GPU passes here.
#include <gtest/gtest.h>

#include <memory>

#include "tests/support/host_device/host_device.h"

namespace gq::test {
namespace {

class OnThreads : public testing::Environment {
 public:
  void SetUp() override { device_ = std::make_unique<UseHostDevice>(); }
  void TearDown() override { device_.reset(); }

 private:
  std::unique_ptr<UseHostDevice> device_;
};

[[maybe_unused]] testing::Environment* const kOnThreads =
    testing::AddGlobalTestEnvironment(new OnThreads);

}  // namespace
}  // namespace gq::test
