// Which device a thread has after a call that needed another one.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "src/gpu/device/device.h"
#include "tests/support/host_device/host_device.h"

namespace gq::test {
namespace {

int32_t current_now = 0;
std::set<int32_t> in_use;
std::vector<int32_t> chosen;

/** Like CUDA: a device that is made current is in use from then on. */
Device device_of_test() {
  Device device = host_device();
  device.current = [](int32_t* ordinal) { return *ordinal = current_now, Status(); };
  device.set_current = [](int32_t ordinal) {
    current_now = ordinal;
    in_use.insert(ordinal);
    chosen.push_back(ordinal);
    return Status();
  };
  device.is_in_use = [](int32_t ordinal) { return in_use.count(ordinal) > 0; };
  return device;
}

std::vector<int32_t> chosen_for(int32_t ordinal, std::set<int32_t> used) {
  current_now = 0;
  in_use = std::move(used);
  chosen.clear();
  const Device device = device_of_test();
  {
    OnDevice here(device);
    EXPECT_TRUE(here.enter(ordinal).ok());
    EXPECT_EQ(current_now, ordinal);
  }
  return chosen;
}

TEST(OnDevice, DeviceBeforeIsUsed_CurrentAgain) {
  EXPECT_EQ(chosen_for(2, {0}), (std::vector<int32_t>{2, 0}));
}

TEST(OnDevice, DeviceBeforeIsUnused_StaysUnused) {
  EXPECT_EQ(chosen_for(2, {}), (std::vector<int32_t>{2}));
  EXPECT_EQ(in_use, std::set<int32_t>{2});
}

TEST(OnDevice, SameDevice_NoneChosen) {
  EXPECT_EQ(chosen_for(0, {}), (std::vector<int32_t>{}));
  EXPECT_EQ(chosen_for(0, {0}), (std::vector<int32_t>{}));
}

}  // namespace
}  // namespace gq::test
