// Which accelerator this process has, and the host's wait for one.
#include "src/gpu/device/device.h"

#include <time.h>

#include <atomic>

#include "src/support/clock.h"

namespace gq {
namespace {

std::atomic<const Device*> double_of_tests{nullptr};

// Short against a collective that is worth waiting for, long against the host's price of a look.
constexpr long kNapMinNs = 2000;
constexpr long kNapMaxNs = 200000;

}  // namespace

const Device* process_device(const char** reason) {
  static const char* no_device = "";
  static const Device* const found = cuda_device(&no_device);
  if (const Device* other = double_of_tests.load(std::memory_order_acquire)) return other;
  if (reason != nullptr) *reason = no_device;
  return found;
}

Status device_of(StreamHandle stream, const Device** device) {
  const char* reason = "";
  *device = process_device(&reason);
  if (*device != nullptr) return Status();
  return fail(GQSGD_UNSUPPORTED,
              "stream is %p, for memory of a device, and there is none: %s; hint: NULL is for "
              "host memory",
              stream, reason);
}

void use_device(const Device* device) { double_of_tests.store(device, std::memory_order_release); }

Status wait_for(const Device& device, EventHandle event, uint64_t deadline_us,
                Status (*look)(void* argument), void* argument, bool* done) {
  *done = false;
  for (long nap_ns = kNapMinNs;; nap_ns = nap_ns * 2 < kNapMaxNs ? nap_ns * 2 : kNapMaxNs) {
    GQ_TRY(device.query(event, done));
    if (*done || monotonic_us() >= deadline_us) return Status();
    if (look != nullptr) GQ_TRY(look(argument));
    const timespec nap{0, nap_ns};
    nanosleep(&nap, nullptr);
  }
}

OnDevice::~OnDevice() {
  if (changed_ && device_.is_in_use(before_)) (void)device_.set_current(before_).ok();
}

Status OnDevice::enter(int32_t ordinal) {
  GQ_TRY(device_.current(&before_));
  if (before_ == ordinal) return Status();
  changed_ = true;
  return device_.set_current(ordinal);
}

}  // namespace gq
