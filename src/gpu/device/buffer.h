// Memory of a device, or of the host where a device reads it, that grows and is given back at its
// end.
#ifndef GQ_GPU_DEVICE_BUFFER_H
#define GQ_GPU_DEVICE_BUFFER_H

#include <utility>

#include "src/gpu/device/device.h"

namespace gq {

enum class BufferPlace : uint8_t { device, pinned };

template <BufferPlace kPlace>
class OwnedMemory {
 public:
  OwnedMemory() = default;
  ~OwnedMemory() { give_back(); }
  OwnedMemory(const OwnedMemory&) = delete;
  OwnedMemory& operator=(const OwnedMemory&) = delete;
  OwnedMemory(OwnedMemory&& other) noexcept { swap(other); }

  void swap(OwnedMemory& other) {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(release_, other.release_);
  }

  /** At least this long; what was in it is lost where it grows, and kept where it cannot. Nothing
   *  may be using it then. */
  Status reserve(const Device& device, size_t size_bytes) {
    if (size_bytes <= size_bytes_) return Status();
    const auto allocate = kPlace == BufferPlace::device ? device.allocate : device.allocate_pinned;
    void* longer = nullptr;
    GQ_TRY(allocate(size_bytes, &longer));
    give_back();
    data_ = longer;
    device_ = &device;
    size_bytes_ = size_bytes;
    return Status();
  }

  /** Takes memory that another library has allocated, and frees it by `release`. */
  void take(void* memory, size_t size_bytes, int (*release)(void*)) {
    give_back();
    data_ = memory;
    size_bytes_ = size_bytes;
    release_ = release;
  }

  /** Gives nothing back at its end. */
  void forget() { data_ = nullptr; }

  unsigned char* data() const { return static_cast<unsigned char*>(data_); }
  template <typename Type>
  Type* as(size_t offset_bytes = 0) const {
    return reinterpret_cast<Type*>(data() + offset_bytes);
  }
  size_t size_bytes() const { return size_bytes_; }

 private:
  void give_back() {
    if (data_ == nullptr) return;
    if (release_ != nullptr) {
      (void)release_(data_);
    } else {
      (kPlace == BufferPlace::device ? device_->release : device_->release_pinned)(data_);
    }
    release_ = nullptr;
    data_ = nullptr;
    size_bytes_ = 0;
  }

  const Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t size_bytes_ = 0;
  int (*release_)(void*) = nullptr;  // null: the device's
};

using DeviceBuffer = OwnedMemory<BufferPlace::device>;
using PinnedBuffer = OwnedMemory<BufferPlace::pinned>;

}  // namespace gq

#endif
