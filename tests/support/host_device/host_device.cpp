// The table of the device, and its faults. Memory is in host_memory.cpp, streams are in
// host_streams.cpp, stages in host_stages.cpp.
#include "tests/support/host_device/host_device.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/support/host_device/host_fused.h"
#include "tests/support/host_device/host_memory.h"
#include "tests/support/host_device/host_stages.h"
#include "tests/support/host_device/host_streams.h"

namespace gq::test {
namespace {

// Of this thread; the runtime refuses some calls meanwhile.
thread_local int captures = 0;
thread_local int waits = 0, forgotten_wait = 0;
std::atomic<size_t> made{0};  // streams and events

std::atomic<bool> events_come_early{false};
std::atomic<uint32_t> kernels_before_reach{0};

Status current(int32_t* ordinal) {
  *ordinal = current_ordinal;
  return Status();
}
Status set_current(int32_t ordinal) {
  current_ordinal = ordinal;
  return Status();
}
/** Takes its time, as CUDA does, which may wait for the device. */
Status reach(int32_t ordinal, bool* direct) {
  *direct = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  kernels_before_reach = fused_kernels_enqueued();
  if (ordinal != current_ordinal) return Status();
  return fail(GQSGD_BACKEND, "device %d cannot be a peer of itself", ordinal);
}

/** What CUDA refuses as well: kernels and events of one device on a stream of another. */
Status check_device(int32_t ordinal, StreamHandle stream) {
  const int32_t there = stream_of(stream).ordinal;
  if (there == ordinal) return Status();
  return fail(GQSGD_BACKEND, "device %d on a stream of device %d", ordinal, there);
}

Status allocate(size_t size_bytes, void** memory) {
  if (captures > 0) return fail(GQSGD_BACKEND, "memory was asked for during a capture");
  return allocate_block(size_bytes, current_ordinal, memory);
}

Status memory_kind(const void* pointer, MemoryKind* kind) {
  const int32_t ordinal = ordinal_of_block(pointer);
  *kind = ordinal == current_ordinal ? MemoryKind::device : MemoryKind::other;
  if (ordinal == kNoBlock) *kind = MemoryKind::host;
  return Status();
}

Status copy(void* to, const void* from, size_t size_bytes, StreamHandle stream) {
  stream_of(stream).run([=] { std::memcpy(to, from, size_bytes); });
  return Status();
}
Status clear(void* to, size_t size_bytes, StreamHandle stream) {
  stream_of(stream).run([=] { std::memset(to, 0, size_bytes); });
  return Status();
}

Status make_stream(StreamHandle* stream) {
  ++made;
  *stream = new Stream(current_ordinal);
  return Status();
}
void end_stream(StreamHandle stream) { delete static_cast<Stream*>(stream); }
Status is_capturing(StreamHandle stream, bool* capturing) {
  *capturing = stream_of(stream).capture() != nullptr;
  return Status();
}

Event& event_of(EventHandle event) { return *static_cast<Event*>(event); }
Status make_event(EventHandle* event) {
  ++made;
  *event = new Event(current_ordinal);
  return Status();
}
void end_event(EventHandle event) { delete static_cast<Event*>(event); }

Status across_capture() {
  return fail(GQSGD_BACKEND, "an event would tie what is captured to what is not");
}
Status record(EventHandle handle, StreamHandle stream) {
  GQ_TRY(check_device(event_of(handle).state->ordinal, stream));
  record(&event_of(handle), &stream_of(stream));
  return Status();
}
Status wait(StreamHandle stream, EventHandle handle) {
  ++waits;
  if (forgotten_wait > 0 && --forgotten_wait == 0) return Status();
  return wait(&stream_of(stream), event_of(handle)) ? Status() : across_capture();
}
Status record_in_graph(EventHandle handle, StreamHandle stream) {
  if (!stream_of(stream).capture()) return across_capture();
  stream_of(stream).run_at_replay([state = event_of(handle).state] { return record_of(state); });
  return Status();
}
Status wait_in_graph(StreamHandle stream, EventHandle handle) {
  if (!stream_of(stream).capture()) return across_capture();
  stream_of(stream).run_at_replay([state = event_of(handle).state] { return wait_of(state); });
  return Status();
}
Status query(EventHandle handle, bool* done) {
  if (captures > 0) return fail(GQSGD_BACKEND, "an event was asked after during a capture");
  EventState& state = *event_of(handle).state;
  const std::lock_guard<std::mutex> lock(state.mutex);
  *done = events_come_early || state.come >= state.recorded;
  return Status();
}

}  // namespace

const Device& host_device() {
  static const Device kDevice = {
      "host double",
      &host_stages(),
      &host_batch_stages(),
      &host_agreement_stages(),
      current,
      set_current,
      allocate,
      release_block,
      allocate,
      release_block,
      memory_kind,
      copy,
      clear,
      make_stream,
      end_stream,
      is_capturing,
      make_event,
      end_event,
      record,
      wait,
      query,
      nullptr,
      record_in_graph,
      wait_in_graph,
      reach,
      &host_ipc(),
      &host_fused_stages(),
      [](int32_t, int32_t, bool* can) { return *can = true, Status(); },
      [](int32_t) { return true; },
      [] { return Status(); },
  };
  return kDevice;
}

const Device& host_device_alone() {
  static const Device kDevice = [] {
    Device device = host_device();
    device.ipc = nullptr;
    return device;
  }();
  return kDevice;
}

StreamHandle default_host_stream() { return &stream_of(nullptr); }

DeviceMemory::DeviceMemory(size_t size_bytes) {
  if (!allocate(size_bytes == 0 ? 1 : size_bytes, &data_).ok()) abort();
}
DeviceMemory::~DeviceMemory() { release_block(data_); }

OwnStream::OwnStream() { (void)make_stream(&stream_).ok(); }
OwnStream::~OwnStream() { end_stream(stream_); }

bool OwnStream::synchronize(int timeout_ms) const {
  EventHandle event = nullptr;
  (void)make_event(&event).ok();
  (void)record(event, stream_).ok();
  bool done = false;
  for (int k = 0; k < timeout_ms * 5 && !done; ++k) {
    (void)query(event, &done).ok();
    if (!done) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  end_event(event);
  return done;
}

void OwnStream::sleep(int time_ms) const {
  stream_of(stream_).run([time_ms] { sleep_ms(time_ms); });
}

void OwnStream::await(const std::atomic<bool>& flag) const {
  stream_of(stream_).run([&flag] {
    while (!flag) sleep_ms(1);
  });
}

uint32_t fused_kernels_before_reach() { return kernels_before_reach; }

void report_events_early(bool early) { events_come_early = early; }

/** Events that were recorded in it may live on. */
HostGraph::~HostGraph() {
  if (capture_) capture_->forget();
}
void HostGraph::begin_capture(StreamHandle stream) {
  stream_of(stream).begin_capture();
  captures += 1;
}
bool HostGraph::end_capture(StreamHandle stream) {
  captures -= 1;
  capture_ = stream_of(stream).capture();
  return capture_->end();
}
void HostGraph::replay(StreamHandle stream) const { capture_->replay(&stream_of(stream)); }

size_t streams_and_events_made() { return made; }
void forget_wait(int nth) { forgotten_wait = nth; }
int waits_asked_for() { return waits; }

}  // namespace gq::test
