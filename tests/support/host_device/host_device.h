// A device for machines that have none: its memory is the host's, its streams are threads, its
// stages are those of the CPU, made when their turn comes. What is enqueued really runs later, and
// what reads too early reads something else.
#ifndef GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_DEVICE_H
#define GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_DEVICE_H

#include <atomic>
#include <cstddef>
#include <memory>

#include "src/gpu/device/device.h"

namespace gq::test {

/** The table; process-wide, never gone. */
const Device& host_device();

/** The same device, whose memory no other process reaches. */
const Device& host_device_alone();

/** What a null stream stands for. */
StreamHandle default_host_stream();

/** It is this process's device for as long as this lives. */
class UseHostDevice {
 public:
  explicit UseHostDevice(const Device& device = host_device()) { use_device(&device); }
  ~UseHostDevice() { use_device(nullptr); }
  UseHostDevice(const UseHostDevice&) = delete;
  UseHostDevice& operator=(const UseHostDevice&) = delete;
};

/** Memory that memory_kind() knows as the device's. */
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t size_bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  template <typename Type>
  Type* as() const {
    return static_cast<Type*>(data_);
  }

 private:
  void* data_ = nullptr;
};

/** A stream of the device; waits for its work at its end. */
class OwnStream {
 public:
  OwnStream();
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  StreamHandle get() const { return stream_; }
  /** True if all that was pushed is done within `timeout_ms`. */
  bool synchronize(int timeout_ms = 60000) const;
  /** Work that takes this long. */
  void sleep(int time_ms) const;
  /** Work that takes until then. */
  void await(const std::atomic<bool>& flag) const;

 private:
  StreamHandle stream_ = nullptr;
};

/** What of the device's memory is in use, in allocations. */
size_t allocations_in_use();
/** From the n-th allocation on (1: the next one) there is no memory; 0: there is again. */
void fail_allocations_from(size_t nth);

/** A fault: events are reported complete at once, so that hosts wait for nothing. */
void report_events_early(bool early);

/** Fused kernels that were enqueued when devices were last made to reach each other. */
uint32_t fused_kernels_before_reach();

/** What was ever made of both. */
size_t streams_and_events_made();
/** Waits of streams for events that this thread has asked for, and the n-th from now on (1: the
 * next one) that is not made; 0: all are. */
int waits_asked_for();
void forget_wait(int nth);
/** Every stage that this thread enqueues from now on takes so much longer. */
void slow_down_stages(int time_ms);

class Capture;

/** What the calling thread enqueues between begin and end is executed by each replay, on any
 *  stream, and not before. Streams that wait for events of a captured stream are captured too. */
class HostGraph {
 public:
  HostGraph() = default;
  ~HostGraph();
  HostGraph(const HostGraph&) = delete;
  HostGraph& operator=(const HostGraph&) = delete;

  void begin_capture(StreamHandle stream);
  /** False if the stream does not come after all that others were captured with. */
  bool end_capture(StreamHandle stream);
  void replay(StreamHandle stream) const;

 private:
  std::shared_ptr<Capture> capture_;
};

}  // namespace gq::test

#endif
