// A library built without CUDA has no device.
#include "src/gpu/device/device.h"
#include "src/gpu/device/time_range.h"

namespace gq {

const Device* cuda_device(const char** reason) {
  *reason = "this library was built without CUDA";
  return nullptr;
}

const char* device_build() { return "no cuda"; }

void describe_devices(void (*line)(void* user, const char* text), void* user) {
  line(user, "none: this library was built without CUDA");
}

TimeRange::TimeRange(const char*) {}
TimeRange::~TimeRange() {}

}  // namespace gq
