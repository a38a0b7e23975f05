// A device that is none: the emulated stages behind the C ABI, on marked memory of the host.
#include <string.h>

#include <set>

#include "src/gpu/device/device.h"
#include "tests/unit/kernels/cuda/device_memory.h"
#include "tests/unit/kernels/cuda/stages_under_test.h"

namespace gq::test {
namespace {

struct Allocation {
  const uint8_t* begin;
  const uint8_t* end;
  bool operator<(const Allocation& other) const { return begin < other.begin; }
};

std::set<Allocation>& allocations() {
  static std::set<Allocation> all;
  return all;
}

Status memory_kind(const void* pointer, MemoryKind* kind) {
  const auto* place = static_cast<const uint8_t*>(pointer);
  *kind = MemoryKind::host;
  for (const Allocation& allocation : allocations()) {
    if (place >= allocation.begin && place < allocation.end) *kind = MemoryKind::device;
  }
  return Status();
}

}  // namespace

void* test_stream() {
  static const Device kDevice = [] {
    Device device = {};
    device.name = "emulated";
    device.stages = &stages_under_test;
    device.memory_kind = memory_kind;
    device.numbers = &numbers_under_test;
    return device;
  }();
  use_device(&kDevice);
  return reinterpret_cast<void*>(1);
}

DeviceBytes::DeviceBytes(const std::vector<uint8_t>& bytes, size_t offset_bytes)
    : size_bytes_(bytes.size()), offset_bytes_(offset_bytes) {
  const size_t buffers = (offset_bytes + size_bytes_ + 64) / 64 * 64;
  uint8_t* const begin = static_cast<uint8_t*>(aligned_alloc(64, buffers));
  allocations().insert({begin, begin + buffers});
  memory_ = std::shared_ptr<uint8_t>(begin, [buffers](uint8_t* memory) {
    allocations().erase({memory, memory + buffers});
    free(memory);
  });
  if (size_bytes_ > 0) memcpy(data(), bytes.data(), size_bytes_);
}

std::vector<uint8_t> DeviceBytes::bytes() const {
  const auto* first = static_cast<const uint8_t*>(data());
  return {first, first + size_bytes_};
}

}  // namespace gq::test
