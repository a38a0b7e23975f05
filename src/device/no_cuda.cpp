// A library built without CUDA has no device.
#include "src/device/device.h"

namespace gq {

const Device* cuda_device(const char** reason) {
  *reason = "this library was built without CUDA";
  return nullptr;
}

}  // namespace gq
