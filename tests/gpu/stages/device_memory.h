// Memory of the device under test.
#ifndef GQ_TESTS_GPU_STAGES_DEVICE_MEMORY_H
#define GQ_TESTS_GPU_STAGES_DEVICE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <vector>

namespace gq::test {

/** Bytes on the device, `offset_bytes` behind an aligned address. */
class DeviceBytes {
 public:
  DeviceBytes(const std::vector<uint8_t>& bytes, size_t offset_bytes);

  void* data() const { return memory_.get() + offset_bytes_; }

  /** What they are once all that was enqueued has run. */
  std::vector<uint8_t> bytes() const;

 private:
  size_t size_bytes_, offset_bytes_;
  std::shared_ptr<uint8_t> memory_;
};

/** The stream that tests enqueue on; never NULL. */
void* test_stream();

}  // namespace gq::test

#endif
