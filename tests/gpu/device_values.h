// Values and a stream of the device that this process has, CUDA's or the one that tests bring.
#ifndef GQ_TESTS_GPU_DEVICE_VALUES_H
#define GQ_TESTS_GPU_DEVICE_VALUES_H

#include <stdexcept>

#include "src/gpu/device/device.h"
#include "src/support/clock.h"
#include "tests/support/inputs.h"

namespace gq::test {

/** What fails ends the test. */
inline void done(const Status& status) {
  if (!status.ok()) throw std::runtime_error(last_error());
}

inline const Device& device_of_tests() {
  const char* reason = "";
  const Device* const device = process_device(&reason);
  if (device == nullptr) throw std::runtime_error(reason);
  return *device;
}

class DeviceQueue {
 public:
  DeviceQueue() {
    done(device_.make_stream(&stream_));
    done(device_.make_event(&event_));
  }
  ~DeviceQueue() {
    device_.end_event(event_);
    device_.end_stream(stream_);
  }
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  StreamHandle get() const { return stream_; }
  /** False if it is not through in time. */
  bool wait(int timeout_ms) const {
    bool through = false;
    done(device_.record(event_, stream_));
    done(wait_for(device_, event_, deadline_after_ms(timeout_ms), nullptr, nullptr, &through));
    return through;
  }

 private:
  const Device& device_ = device_of_tests();
  StreamHandle stream_ = nullptr;
  EventHandle event_ = nullptr;
};

class DeviceValues {
 public:
  /** `offset` elements behind aligned memory. */
  explicit DeviceValues(size_t value_count, size_t offset = 0)
      : size_bytes_(value_count * sizeof(float)), offset_(offset) {
    done(device_.allocate(size_bytes_ + offset * sizeof(float), &memory_));
  }
  ~DeviceValues() { device_.release(memory_); }
  DeviceValues(const DeviceValues&) = delete;
  DeviceValues& operator=(const DeviceValues&) = delete;

  float* data() const { return static_cast<float*>(memory_) + offset_; }
  /** `values` stay until the queue has been waited for. */
  void put(const Values& values, const DeviceQueue& queue) {
    done(device_.copy(data(), values.data(), size_bytes_, queue.get()));
  }
  /** So that what no kernel writes is seen. */
  void clear(const DeviceQueue& queue) { done(device_.clear(data(), size_bytes_, queue.get())); }
  /** Behind what has been waited for. */
  Values values(const DeviceQueue& queue) const {
    Values copy(size_bytes_ / sizeof(float));
    done(device_.copy(copy.data(), data(), size_bytes_, queue.get()));
    if (!queue.wait(kCopyMs)) throw std::runtime_error("a copy does not get through");
    return copy;
  }

 private:
  static constexpr int kCopyMs = 20000;

  const Device& device_ = device_of_tests();
  size_t size_bytes_, offset_;
  void* memory_ = nullptr;
};

/** Step and index in memory of the device, where a call finds them in its turn. */
class DeviceStep {
 public:
  DeviceStep() { done(device_.allocate(sizeof given_, &memory_)); }
  ~DeviceStep() { device_.release(memory_); }
  DeviceStep(const DeviceStep&) = delete;
  DeviceStep& operator=(const DeviceStep&) = delete;

  /** The queue is to be waited for before the next ones. */
  void put(uint64_t step, uint64_t index, const DeviceQueue& queue) {
    given_[0] = static_cast<uint32_t>(step);
    given_[1] = static_cast<uint32_t>(index);
    done(device_.copy(memory_, given_, sizeof given_, queue.get()));
  }
  const uint32_t* address() const { return static_cast<const uint32_t*>(memory_); }

 private:
  const Device& device_ = device_of_tests();
  uint32_t given_[2] = {};
  void* memory_ = nullptr;
};

}  // namespace gq::test

#endif
