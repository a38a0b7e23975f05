// Functions of a device that a test makes fail.
#ifndef GQ_TESTS_SUPPORT_HOST_DEVICE_ASK_FIRST_H
#define GQ_TESTS_SUPPORT_HOST_DEVICE_ASK_FIRST_H

#include "tests/support/host_device/host_device.h"

namespace gq::test {

template <auto kFunction, Status (*kAsk)()>
struct AsksFirst;
/** A function of the table that fails where kAsk() does, and else is the host device's. */
template <typename... Arguments, Status (*Device::*kFunction)(Arguments...), Status (*kAsk)()>
struct AsksFirst<kFunction, kAsk> {
  static void set(Device* device) {
    device->*kFunction = [](Arguments... arguments) {
      GQ_TRY(kAsk());
      return (host_device().*kFunction)(arguments...);
    };
  }
};

/** ask_first<ask, &Device::copy, &Device::wait>(&device): each of these asks. */
template <Status (*kAsk)(), auto... kFunctions>
void ask_first(Device* device) {
  (AsksFirst<kFunctions, kAsk>::set(device), ...);
}

}  // namespace gq::test

#endif
